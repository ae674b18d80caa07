package spool

// Watching transport/ for names that appear, with inotify(7).

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// watchEvents are the events that announce a new name. An unlink or a tag makes none:
	// in a busy queue these events would cost a sixth of all processor time.
	watchEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_ONLYDIR
	// watchBytes is how much is read of the kernel's queue at once.
	watchBytes = 64 << 10
)

// watcher learns of names that appear in transport/ and its hash directories.
// They are hints: the sweep finds what the watcher misses, and the spool also
// works without it.
//
// Every directory is watched before it is read, so that no name can be missed
// between the two: the sweep watches the hash directories as it reaches them, and
// those made later are watched, and a sweep begins, when they appear.
type watcher struct {
	s    *Spool
	file *os.File // inotify; nil where the system permits none
	fd   int
	root string // transport/, with a slash

	mu       sync.Mutex
	prefixes map[int32]string // of the directories that are watched, below transport/
	full     bool             // the system permits no more watches
}

// startWatch begins to watch transport/ itself.
func (s *Spool) startWatch() {
	w := &s.watcher
	w.s, w.root, w.prefixes = s, filepath.Join(s.options.Postoffice, "transport")+"/", make(map[int32]string)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		s.warn("watching transport: " + err.Error() + "; new mail is found by sweeping")
		return
	}
	w.fd, w.file = fd, os.NewFile(uintptr(fd), "inotify")
	w.watch("")
	s.spawn(w.run)
	s.spawn(func() {
		<-s.done
		_ = w.file.Close() // which ends the read
	})
}

// watch watches transport/prefix. It may be called again.
func (w *watcher) watch(prefix string) {
	if w.file == nil || w.s.closed() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, w.root+prefix, watchEvents)
	switch err {
	case nil:
		w.prefixes[int32(wd)] = prefix
	case unix.ENOENT:
	default:
		w.full = true
		w.s.warn("watching transport/" + prefix + ": " + err.Error() + "; new mail there is found by sweeping")
	}
}

func (w *watcher) run() {
	buf := make([]byte, watchBytes)
	for {
		n, err := w.file.Read(buf)
		if errors.Is(err, os.ErrClosed) || w.s.closed() {
			return
		}
		if err != nil {
			w.s.warn("watching transport: " + err.Error() + "; new mail is found by sweeping")
			return
		}
		if !w.events(buf[:n]) {
			return
		}
	}
}

// events takes the events of one read. It returns false if the spool was closed meanwhile.
func (w *watcher) events(buf []byte) bool {
	var names []Name
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask, length := binary.NativeEndian.Uint32(buf[4:]), binary.NativeEndian.Uint32(buf[12:])
		name, _, _ := bytes.Cut(buf[unix.SizeofInotifyEvent:][:length], []byte{0})
		buf = buf[unix.SizeofInotifyEvent+length:]
		w.mu.Lock()
		prefix, known := w.prefixes[wd]
		if mask&unix.IN_IGNORED != 0 { // the directory is gone
			delete(w.prefixes, wd)
		}
		w.mu.Unlock()
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			wake(w.s.sweeps)
		case known && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			w.appeared(prefix, string(name), &names)
		}
		if len(names) >= batchLimit {
			if !w.s.announce(names) {
				return false
			}
			names = nil
		}
	}
	return w.s.announce(names)
}

// appeared adds a name that has appeared in transport/prefix.
func (w *watcher) appeared(prefix, base string, names *[]Name) {
	if id, ok := numbered(base); ok {
		*names = append(*names, Name{prefix + base, id})
		return
	}
	if postoffice.IsHashDir(base) && len(prefix)/2 < maxDepth {
		w.watch(prefix + base + "/")
		wake(w.s.sweeps) // there may be names in it already
	}
}
