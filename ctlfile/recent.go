package ctlfile

// Recent: where the recipients are in large control files that were read a short time ago.

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
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
	fixed      int64   // length of the part of the file that is never cut off
	head       File    // without recipients and diagnostics
	places     []place // in the order of host and offset
	cost       int64   // bytes of memory, about
}

// place is where a recipient is.
type place struct {
	host           uint32 // hash of its RouteHost
	offset, length uint32 // of its line and of the lines that belong to it
	header         int32  // offset of its header block; -1: it has none
	sender         int32
}

const (
	// minRecent is the size in bytes of the smallest control file of which an index is kept. A
	// smaller one is read as fast as its index is found.
	minRecent = 8 << 10
	// maxRecent is how many bytes of memory the indices may occupy: eight of 250 000 recipients
	// each fit in. A larger one is kept alone.
	maxRecent = 48 << 20
)

// Read returns the control file that is open as fd and has so many bytes. Of a large file it
// returns perhaps only the recipients at the host; "" stands for all recipients. No index is kept of a file with one recipient, nor of one with alternatives, because
// the state of one decides about another.
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
	f, err = x.read(fd, host)
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
	f, err := readOpen(fd, st.Size)
	if err != nil || len(f.Recipients) < 2 || f.hasAlternatives() {
		return nil, f, err
	}
	x := newIndex(f)
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

// fixed is the length of the part of the file that is never cut off: up to the end of
// the last header block. After it come only d lines.
func (f *File) fixed() int64 {
	if len(f.Recipients) == 0 {
		return 0
	}
	last := &f.Recipients[len(f.Recipients)-1]
	return max(last.Offset, last.HeaderEnd)
}

func (f *File) hasAlternatives() bool {
	return slices.ContainsFunc(f.Recipients, func(r Recipient) bool { return r.Class > 0 })
}

var hostSeed = maphash.MakeSeed()

func hashHost(host string) uint32 { return uint32(maphash.String(hostSeed, host)) }

// newIndex returns the index of a file. It shares no memory with it.
func newIndex(f *File) *index {
	x := &index{fixed: f.fixed(), head: f.withoutRecipients(), places: make([]place, len(f.Recipients))}
	for i := range f.Recipients {
		r := &f.Recipients[i]
		x.places[i] = place{
			host: hashHost(r.RouteHost()), offset: uint32(r.Offset), length: uint32(f.endOf(r) - r.Offset),
			header: int32(r.Header), sender: int32(r.Sender),
		}
		if _, known := x.head.headers[r.Header]; !known && r.Header >= 0 {
			text := strings.Clone(f.Headers(i))
			x.head.headers[r.Header] = text
			x.cost += int64(len(text)) + 64
		}
	}
	slices.SortFunc(x.places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.offset, b.offset))
	})
	const sizeOfPlace, sizeOfSender = 20, 300
	x.cost += int64(len(x.places))*sizeOfPlace + int64(len(f.Senders))*sizeOfSender
	return x
}

// withoutRecipients returns a copy that does not share the text of the file.
func (f *File) withoutRecipients() File {
	h := *f
	h.Recipients, h.Diagnostics, h.text = nil, nil, ""
	h.headers = make(map[int64]string)
	for _, s := range []*string{&h.Name, &h.MessageID, &h.Source, &h.ErrorTo} {
		*s = strings.Clone(*s)
	}
	h.Obsoletes, h.Triggers, h.Senders = slices.Clone(h.Obsoletes), slices.Clone(h.Triggers), slices.Clone(h.Senders)
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

// endOf is the offset after the last line that belongs to a recipient.
func (f *File) endOf(r *Recipient) int64 {
	at := r.Offset
	for {
		at += int64(strings.IndexByte(f.text[at:], '\n') + 1)
		if at == int64(len(f.text)) || !strings.ContainsRune("NRnO", rune(f.text[at])) {
			return at
		}
	}
}

// errReplaced says that a control file is not the one that was read.
var errReplaced = errors.New("the control file was replaced")

// read returns the file, which is open as fd, with the recipients at a host. The error wraps
// errReplaced if there is something else in the place of one.
func (x *index) read(fd int, host string) (*File, error) {
	f := x.head
	host = Address{Host: host}.RouteHost()
	hash := hashHost(host)
	first := sort.Search(len(x.places), func(i int) bool { return x.places[i].host >= hash })
	for _, p := range x.places[first:] {
		if p.host != hash {
			break
		}
		r, err := f.readRecipient(fd, p)
		if err != nil {
			return nil, fmt.Errorf("read the recipient at byte %d: %w", p.offset, err)
		}
		if r.RouteHost() == host {
			f.Recipients = append(f.Recipients, r)
		}
	}
	return &f, nil
}

// readRecipient reads the lines of a recipient, and the line end before them.
func (f *File) readRecipient(fd int, at place) (r Recipient, err error) {
	offset := int64(at.offset)
	lines := make([]byte, 1+at.length)
	n, err := postoffice.PreadFull(fd, lines, offset-1)
	if err == nil && n < len(lines) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return r, err
	}
	part := &File{Flags: f.Flags, Senders: f.Senders[:1]}
	p := parser{text: string(lines[1:]), file: part}
	replaced := lines[0] != '\n' || lines[1] != 'r' || slices.Contains(lines, 0)
	for next := 0; next < len(p.text) && !replaced; {
		var malformed *ParseError
		next, malformed = p.line(next)
		replaced = malformed != nil
	}
	if replaced || len(part.Recipients) != 1 {
		return r, errReplaced
	}
	r = part.Recipients[0]
	r.Offset, r.Sender, r.Header, r.HeaderEnd = offset, int(at.sender), int64(at.header), int64(at.header)
	if r.Header >= 0 {
		r.HeaderEnd += int64(len(f.headers[r.Header]))
	}
	if r.N >= 0 {
		r.N += offset
	}
	return r, nil
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
