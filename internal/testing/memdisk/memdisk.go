// Package memdisk is a file system in memory that simulates power cuts, for
// tests: a postoffice.Disk.
//
// A program reads what it wrote. Besides that, the disk records what a power cut
// would leave, as far as POSIX promises anything: the content of a file as of its
// last fsync, and the names in a directory as of the last fsync of that
// directory. PowerOn keeps any part of the later changes:
//
//	a write        any of its 512-byte sectors, in any order; where only a
//	               later one is left, the hole reads as zeros
//	a name         any of the changes of names, in any order, except that the
//	               changes of one file keep their order
//	owner, mode,   the old or the new
//	times
//
// A rename is one change, even between two directories: after a power cut the
// file has one of its names. Every file system with a journal guarantees that,
// and every mail system needs it. If the name of a directory is lost, everything
// in it is lost too.
//
// Calls can fail, too: at random with an error that the call may have, or because
// the disk is full (Faults). An fsync that fails loses what it should have
// written, and the next one does not try again, as on Linux.
//
// All choices come from one seed. The order in which several goroutines make
// calls does not, so the same seed gives a similar run, not the same run.
package memdisk

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sector is how many bytes a disk writes as a unit.
const sector = 512

// Disk is the file system. Its methods may be called from any goroutine.
type Disk struct {
	mu     sync.Mutex
	rand   *rand.Rand
	prefix string // the directory that it is mounted at, with a slash
	user   uint32
	root   *node
	free   []uint64 // inode numbers that were in use before
	last   uint64   // the highest inode number that was in use

	journal []*change // name changes that are not durable, the oldest first
	changes int       // name changes ever
	open    map[int]*handle
	nextFD  int

	calls   int // since the power came on
	cutAt   int // calls that change something until the power fails; 0: it stays on
	cutStep func(call string) bool
	off     bool
	cut     string // the call at which it failed
	faults  Faults
	used    int64    // bytes in all files
	failed  int      // calls that failed because of faults
	trace   []string // every call that changed something or should have
}

// New makes an empty disk for the directory dir, which is an absolute path. All
// files belong to a user.
func New(dir string, user int, seed *rand.Rand) *Disk {
	d := &Disk{rand: seed, prefix: strings.TrimSuffix(dir, "/") + "/", user: uint32(user), open: make(map[int]*handle), last: 99}
	d.root = d.newNode(unix.S_IFDIR | 0o755)
	d.root.durable = d.root.state
	return d
}

// node is a file or a directory.
type node struct {
	ino     uint64
	state   state // as programs see it
	durable state // as of the last fsync
	writes  []write
	links   int  // names, as programs see them
	gone    bool // its number is free

	names        map[string]*node // of a directory, as programs see it
	durableNames map[string]*node // as of the last fsync
	// setAt has, for each name that is durable or durably gone, the number of the
	// change that made it so. If an earlier change of that name is applied later,
	// it has no effect.
	setAt map[string]int
}

// state is everything about a node but its names. Data is never changed in place.
type state struct {
	mode, uid, gid uint32
	mtime, ctime   time.Time
	data           []byte
}

func (n *node) isDir() bool { return n.state.mode&unix.S_IFMT == unix.S_IFDIR }

// write is a change of data that is not durable: bytes at an offset or, with nil
// bytes, a new size.
type write struct {
	offset    int64
	data      []byte
	abandoned bool // by an fsync that failed
}

// change is a change of the names of one node that is not durable.
type change struct {
	number int // from 1, in the order in which the changes were made
	node   *node
	sets   []nameSet
}

// nameSet gives a name to a node or, with nil, takes it away.
type nameSet struct {
	dir  *node
	name string
	node *node
}

// handle is an open file or directory.
type handle struct {
	node   *node
	offset int64
	flags  int
	name   string   // as it was opened, for the list of calls
	list   []string // of a directory, the names still to be read; nil: from the start
	listed bool
}

func (d *Disk) newNode(mode uint32) *node {
	n := &node{}
	if len(d.free) > 0 && d.rand.IntN(2) == 0 {
		// Inode numbers are reused at once.
		i := d.rand.IntN(len(d.free))
		n.ino = d.free[i]
		d.free[i] = d.free[len(d.free)-1]
		d.free = d.free[:len(d.free)-1]
	} else {
		d.last++
		n.ino = d.last
	}
	now := time.Now()
	n.state = state{mode: mode, uid: d.user, gid: d.user, mtime: now, ctime: now}
	n.durable = n.state
	if mode&unix.S_IFMT == unix.S_IFDIR {
		n.names, n.durableNames, n.setAt = map[string]*node{}, map[string]*node{}, map[string]int{}
	}
	return n
}

// Calls returns the number of calls since the power came on.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Trace appends a note to the list of every call that changed something or should
// have, and returns the list.
func (d *Disk) Trace(note string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trace = append(d.trace, note)
	return d.trace
}

// OpenFiles returns the number of open descriptors.
func (d *Disk) OpenFiles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open)
}

// Files returns the paths of all files below a directory of the disk, sorted. It
// is not a call of the program under test: it neither fails nor counts.
func (d *Disk) Files(dir string) (paths []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.find(dir); n != nil {
		n.files(strings.TrimSuffix(dir, "/"), &paths)
	}
	return paths
}

// find returns the node that a path from the root names, nil if there is none.
func (d *Disk) find(path string) *node {
	n := d.root
	for word := range strings.SplitSeq(path, "/") {
		if word != "" && n != nil {
			n = n.names[word]
		}
	}
	return n
}

func (n *node) files(path string, paths *[]string) {
	if !n.isDir() {
		*paths = append(*paths, path)
		return
	}
	for _, name := range sortedNames(n.names) {
		n.names[name].files(strings.TrimPrefix(path+"/"+name, "/"), paths)
	}
}

// Content returns the content of a file, as programs see it.
func (d *Disk) Content(path string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.find(path); n != nil {
		return string(n.state.data)
	}
	return ""
}
