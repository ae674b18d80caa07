package ctlfile

// Recent: large control files that were read a short time ago.

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Recent reads control files and keeps the large ones that were used last. A message to
// 20 000 hosts has 20 000 threads, and an agent gets a job line for each of them:
// without Recent it would read a file of a megabyte 20 000 times. The zero value is
// empty. Several goroutines may use it at once.
//
// A file that it keeps is the text that the router wrote, which never changes. Tags, pid
// and delay fields and d lines are those of the time when it was read: Refresh
// reads those of a recipient again.
type Recent struct {
	mu    sync.Mutex
	files []recentFile // the one used last comes first
}

// recentFile is a file that Recent keeps. An inode and its time of birth identify a
// file even after another one has got its name and its inode number.
type recentFile struct {
	dev, inode uint64
	born       unix.Timespec
	file       *File
	cost       int64 // bytes of memory, about
}

const (
	// minRecent is the size in bytes of the smallest control file that is kept. A smaller
	// one is read as fast as it is found.
	minRecent = 8 << 10
	// maxRecent is how many bytes of memory the files may occupy. A larger file is kept
	// alone.
	maxRecent = 32 << 20
)

// Read returns the control file that is open as fd and has so many bytes. Others may use the same
// File, so it must not be changed. old says that it was read earlier: the recipients' states are of
// that time. A file with one recipient is not kept, and neither is one with alternatives,
// because the state of one decides about another.
func (c *Recent) Read(fd int, size int64) (f *File, old bool, err error) {
	if size < minRecent {
		f, err := readOpen(fd, size)
		return f, false, err
	}
	var st unix.Stat_t
	if err := postoffice.Fstat(fd, &st); err != nil {
		return nil, false, err
	}
	born, known := postoffice.BirthTime(fd)
	if !known {
		f, err := readOpen(fd, st.Size)
		return f, false, err
	}
	// The lock is held while a file is read, so that sessions that begin with the same
	// message read it once.
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range c.files {
		if e.dev == st.Dev && e.inode == st.Ino && e.born == born && e.file.fixed() <= st.Size {
			copy(c.files[1:], c.files[:i])
			c.files[0] = e
			return e.file, true, nil
		}
	}
	if f, err = readOpen(fd, st.Size); err != nil || len(f.Recipients) < 2 || f.hasAlternatives() {
		return f, false, err
	}
	f.indexHosts()
	e := recentFile{dev: st.Dev, inode: st.Ino, born: born, file: f}
	e.cost = int64(len(f.text)) + int64(len(f.Recipients))*int64(unsafe.Sizeof(Recipient{})+64)
	c.keep(e)
	return f, false, nil
}

// keep puts a file first, and drops those for which there is no memory then.
func (c *Recent) keep(e recentFile) {
	files, cost := []recentFile{e}, e.cost
	for _, old := range c.files {
		if cost += old.cost; cost > maxRecent {
			break
		}
		files = append(files, old)
	}
	c.files = files
}

// Forget drops a file that has turned out to be replaced.
func (c *Recent) Forget(f *File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = slices.DeleteFunc(c.files, func(e recentFile) bool { return e.file == f })
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
	for i := range f.Recipients {
		if f.Recipients[i].Class > 0 {
			return true
		}
	}
	return false
}

func (f *File) indexHosts() {
	f.hosts = make(map[string][]int32)
	for i := range f.Recipients {
		host := f.Recipients[i].RouteHost()
		f.hosts[host] = append(f.hosts[host], int32(i))
	}
}

// AppendAtHost appends the indices of the recipients at a host to list, in ascending
// order; of all recipients for "". It compares as the scheduler does when it groups
// recipients: without case, and only the first of a list of hosts counts.
func (f *File) AppendAtHost(list []int, host string) []int {
	all := host == ""
	host = Address{Host: host}.RouteHost()
	if f.hosts != nil && !all {
		for _, i := range f.hosts[host] {
			list = append(list, int(i))
		}
		return list
	}
	for i := range f.Recipients {
		if all || f.Recipients[i].RouteHost() == host {
			list = append(list, i)
		}
	}
	return list
}

// ErrReplaced says that a control file is not the one that was read.
var ErrReplaced = errors.New("the control file was replaced")

// Refresh returns recipient i with its tag, pid and delay field as they are in the file
// now, which is open as fd. The error wraps ErrReplaced if the rest of its line is another
// one.
func (f *File) Refresh(fd, i int) (Recipient, error) {
	r := f.Recipients[i]
	was := f.text[r.Offset:]
	was = was[:strings.IndexByte(was, '\n')]
	buf := make([]byte, len(was))
	n, err := postoffice.PreadFull(fd, buf, r.Offset)
	if err == nil && n < len(buf) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return r, fmt.Errorf("read the recipient at byte %d: %w", r.Offset, err)
	}
	now := string(buf)
	_, wasRest, _ := f.Flags.cutFields(was[2:])
	lock, rest, ok := f.Flags.cutFields(now[2:])
	tag := Tag(now[1])
	if !ok || now[0] != was[0] || rest != wasRest || !tag.ofRecipient() {
		return r, fmt.Errorf("the recipient at byte %d: %w", r.Offset, ErrReplaced)
	}
	r.Tag, r.Lock, r.Delays = tag, lock, f.Flags.delays(now)
	return r, nil
}
