package ctlfile

// Recent: where the recipients are in large control files that were read a short time ago.

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Recent reads control files, and keeps an index of the large ones that were used last. A message
// to 20 000 hosts has 20 000 threads, and an agent gets a job line for each of them: without Recent
// it would parse a file of a megabyte 20 000 times. The zero value is empty. Several goroutines may
// use it at once.
//
// The index relies on what the router wrote, which never changes. Recipients are read from the file
// each time, with the tags, pid and delay fields of that moment.
type Recent struct {
	mu    sync.Mutex
	files []*index // the one used last comes first
}

// index is what is kept of a file: all but the recipients, and where these are. An inode and its
// time of birth identify a file even after another one has got its name and its inode number.
type index struct {
	dev, inode uint64
	born       unix.Timespec
	fixed      int64   // offset up to which the file is never cut off
	head       File    // without recipients and diagnostics
	places     []place // in the order of host and offset
	cost       int64   // bytes of memory, about
}

// place is where a recipient is.
type place struct {
	host   uint32 // hash of its RouteHost
	offset uint32
}

// block is the text of a header block, and its offset.
type block struct {
	at   int64
	text string
}

const (
	// minRecent is the size in bytes of the smallest control file of which an index is kept. A
	// smaller one is read as fast as its index is found.
	minRecent = 8 << 10
	// maxRecent is how many bytes of memory the indices may occupy: eight of 250 000 recipients
	// each fit in. A larger one is kept alone.
	maxRecent = 17 << 20
	// window is how many bytes of a file are in memory while its index is made, if no line is longer.
	window = 128 << 10
	// manyPlaces is how many recipients are parsed with the whole file in the time that it takes to
	// read one by its place.
	manyPlaces = 16
)

// Read returns the control file that is open as fd and has so many bytes. Of a large file it
// returns perhaps only the recipients at the host; "" stands for all recipients. No index is kept
// of a file with one recipient, nor of one with alternatives, because the state of one decides
// about another.
func (c *Recent) Read(fd int, size int64, host string) (*File, error) {
	if size < minRecent || host == "" {
		return readOpen(fd, size)
	}
	var st unix.Stat_t
	if err := postoffice.Fstat(fd, &st); err != nil {
		return nil, err
	}
	born, known := postoffice.BirthTime(fd)
	if !known {
		return readOpen(fd, st.Size)
	}
	x, f, err := c.obtain(fd, &st, born)
	if x == nil {
		return f, err
	}
	places := x.placesAt(host)
	if len(places) > len(x.places)/manyPlaces {
		return readOpen(fd, st.Size)
	}
	f, err = x.read(fd, host, places)
	if errors.Is(err, errReplaced) {
		c.forget(x)
		return readOpen(fd, st.Size)
	}
	return f, err
}

// obtain finds or makes the index of a file. If there is to be none, it returns the file.
func (c *Recent) obtain(fd int, st *unix.Stat_t, born unix.Timespec) (*index, *File, error) {
	// The lock is held while a file is read, so that sessions that begin with the same
	// message read it once.
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, x := range c.files {
		if x.dev == st.Dev && x.inode == st.Ino && x.born == born && x.fixed <= st.Size {
			copy(c.files[1:], c.files[:i])
			c.files[0] = x
			return x, nil, nil
		}
	}
	x := newIndex(fd, st.Size)
	if x == nil {
		f, err := readOpen(fd, st.Size)
		return nil, f, err
	}
	x.dev, x.inode, x.born = st.Dev, st.Ino, born
	c.keep(x)
	return x, nil, nil
}

// keep puts an index first, and drops those for which there is no memory then.
func (c *Recent) keep(x *index) {
	files, cost := []*index{x}, x.cost
	for _, old := range c.files {
		if cost += old.cost; cost > maxRecent {
			break
		}
		files = append(files, old)
	}
	c.files = files
}

// forget drops the index of a file that has turned out to be replaced.
func (c *Recent) forget(x *index) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = slices.DeleteFunc(c.files, func(e *index) bool { return e == x })
}

// readOpen reads and parses an open control file.
func readOpen(fd int, size int64) (*File, error) {
	text, err := postoffice.ReadFull(fd, min(size, MaxSize+1), nil)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

var hostSeed = maphash.MakeSeed()

func hashHost(host string) uint32 { return uint32(maphash.String(hostSeed, host)) }

// newIndex makes the index of a file. It returns nil for a file of which none is kept, and for one
// that it does not understand. An agent may have hundreds of processes that do this at once; so it
// does not read the whole file into memory.
func newIndex(fd int, size int64) *index {
	x := &index{head: File{Body: -1, Torn: -1, Size: size}}
	m := indexing{index: x, parser: parser{file: &x.head}}
	buf := make([]byte, 0, window)
	for at := int64(0); at < size; {
		n, err := postoffice.PreadFull(fd, buf[:cap(buf)], at)
		if err != nil || n == 0 || slices.Contains(buf[:n], 0) {
			return nil
		}
		used, ok := m.lines(string(buf[:n]), at)
		if !ok {
			return nil
		}
		if used == 0 {
			if at+int64(n) >= size {
				return nil
			}
			buf = make([]byte, 0, 2*cap(buf))
		}
		at += int64(used)
	}
	if len(x.places) < 2 || m.parser.finish() != nil {
		return nil
	}
	x.head = x.head.withoutRecipients()
	slices.SortFunc(x.places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.offset, b.offset))
	})
	x.places = slices.Clip(x.places)
	const sizeOfPlace, sizeOfSender = 8, 300
	x.cost = int64(len(x.places))*sizeOfPlace + int64(len(x.head.Senders))*sizeOfSender
	for _, b := range x.head.blocks {
		x.cost += int64(len(b.text)) + 64
	}
	return x
}

// indexing makes an index from the lines of a file.
type indexing struct {
	index   *index
	parser  parser
	inGroup bool // the last line was a recipient or belonged to it
}

// lines takes the complete lines of a part of the file, which begins at an offset. It returns their
// length. ok is false if there is to be no index.
func (m *indexing) lines(text string, offset int64) (used int, ok bool) {
	x, f := m.index, &m.index.head
	m.parser.text = text
	for used < len(text) {
		next, reason := nextLine(text, used)
		if next < 0 {
			return used, true
		}
		if reason != "" {
			return 0, false
		}
		letter := text[used]
		switch {
		case letter == 'X', strings.IndexByte(belonging, letter) >= 0 && !m.inGroup:
			return 0, false
		case letter == 'm':
			f.blocks = append(f.blocks, block{offset + int64(used) + 2, strings.Clone(text[used+2 : next-1])})
			x.fixed = offset + int64(next) - 1
		case letter == 'M':
		case letter == 'r':
			f.Recipients = f.Recipients[:0]
			fallthrough
		default:
			if m.parser.field(used, text[used:next-1]) != nil {
				return 0, false
			}
		}
		switch letter {
		case 'r':
			m.inGroup = true
			x.places = append(x.places, place{hashHost(f.Recipients[0].RouteHost()), uint32(offset + int64(used))})
			x.fixed = offset + int64(used)
		case 's':
			f.Senders[len(f.Senders)-1].Offset += offset
		case 'd':
			f.Diagnostics = f.Diagnostics[:0]
		}
		m.inGroup = m.inGroup && !endsGroup(letter)
		used = next
	}
	return used, true
}

// belonging are the letters of lines that belong to the recipient before them.
const belonging = "NRnO"

// endsGroup reports whether a line ends those that belong to a recipient.
func endsGroup(letter byte) bool {
	return letter != 'r' && (known(letter) || letter == 'm' || letter == 'M') && strings.IndexByte(belonging, letter) < 0
}

// withoutRecipients returns a copy that does not share the text of the file.
func (f *File) withoutRecipients() File {
	h := *f
	h.Recipients, h.Diagnostics, h.text = nil, nil, ""
	for _, s := range []*string{&h.Name, &h.MessageID, &h.Source, &h.ErrorTo} {
		*s = strings.Clone(*s)
	}
	for _, list := range [][]string{h.Obsoletes, h.Triggers} {
		for i := range list {
			list[i] = strings.Clone(list[i])
		}
	}
	for i := range h.Senders {
		s := &h.Senders[i]
		for _, word := range []*string{&s.Channel, &s.Host, &s.User, &s.Privilege, &s.ErrorTo} {
			*word = strings.Clone(*word)
		}
	}
	return h
}

// errReplaced says that a control file is not the one that was read.
var errReplaced = errors.New("the control file was replaced")

// placesAt returns where the recipients at a host are, and perhaps some at others.
func (x *index) placesAt(host string) []place {
	hash := hashHost(Address{Host: host}.RouteHost())
	first := sort.Search(len(x.places), func(i int) bool { return x.places[i].host >= hash })
	n := sort.Search(len(x.places)-first, func(i int) bool { return x.places[first+i].host > hash })
	return x.places[first : first+n]
}

// read returns the file, which is open as fd, with the recipients at a host, which are in these
// places. The error wraps errReplaced if there is something else in the place of one.
func (x *index) read(fd int, host string, places []place) (*File, error) {
	f := x.head
	host = Address{Host: host}.RouteHost()
	for _, p := range places {
		r, err := f.readRecipient(fd, int64(p.offset))
		if err != nil {
			return nil, fmt.Errorf("read the recipient at byte %d: %w", p.offset, err)
		}
		if r.RouteHost() == host {
			f.Recipients = append(f.Recipients, r)
		}
	}
	return &f, nil
}

// readRecipient reads the lines of the recipient at an offset, and the line end before them.
func (f *File) readRecipient(fd int, offset int64) (r Recipient, err error) {
	const usual = 512
	part := &File{Flags: f.Flags, Senders: slices.Clip(f.Senders[:1])}
	for size := usual; ; size *= 4 {
		buf := make([]byte, size)
		n, err := postoffice.PreadFull(fd, buf, offset-1)
		if err != nil {
			return r, err
		}
		text := string(buf[:n])
		if n < 2 || text[0] != '\n' || text[1] != 'r' {
			return r, errReplaced
		}
		lines, complete := group(text[1:])
		if !complete && n == size {
			continue
		}
		if strings.IndexByte(lines, 0) >= 0 {
			return r, errReplaced
		}
		p := parser{text: lines, file: part}
		for at := 0; at < len(lines); {
			next, malformed := p.line(at)
			if malformed != nil {
				return r, errReplaced
			}
			at = next
		}
		break
	}
	if len(part.Recipients) != 1 {
		return r, errReplaced
	}
	r = part.Recipients[0]
	r.Offset = offset
	r.Sender = sort.Search(len(f.Senders), func(i int) bool { return f.Senders[i].Offset > offset }) - 1
	if r.N >= 0 {
		r.N += offset
	}
	if b := sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].at > offset }); b < len(f.blocks) {
		r.Header = f.blocks[b].at
		r.HeaderEnd = r.Header + int64(len(f.blocks[b].text))
	}
	return r, nil
}

// group cuts a text after the lines of the recipient at its beginning. complete is false if it may
// have more.
func group(text string) (lines string, complete bool) {
	for at := 0; ; {
		end := strings.IndexByte(text[at:], '\n')
		if at += end + 1; end < 0 || at == len(text) {
			return text[:at], false
		}
		if c := text[at]; c == 'r' || c == 'X' || c == '\n' || endsGroup(c) {
			return text[:at], true
		}
	}
}

// AppendAtHost appends the indices of the recipients at a host to list, in ascending
// order; of all recipients for "". It compares as the scheduler does when it groups
// recipients: without case, and only the first of a list of hosts counts.
func (f *File) AppendAtHost(list []int, host string) []int {
	all := host == ""
	host = Address{Host: host}.RouteHost()
	for i := range f.Recipients {
		if all || f.Recipients[i].RouteHost() == host {
			list = append(list, i)
		}
	}
	return list
}
