package spool

// Watching transport/ for names that appear, with inotify.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
	"zsched/internal/postoffice"
)

// watchBuffer is how many events may wait outside the kernel's queue.
const watchBuffer = 1024

// watcher learns of names that appear in transport/ and its hash directories.
// They are hints: the sweep finds what the watcher misses, and the spool also
// works without it.
//
// Every directory is watched before it is read, so that no name can be missed
// between the two: the sweep watches the hash directories as it reaches them, and
// those made later are watched, and read, when they appear.
type watcher struct {
	s    *Spool
	fs   *fsnotify.Watcher // nil where the system permits no watches
	root string            // transport/, as events name it, with a slash
	full atomic.Bool       // the system permits no more watches
	narrower
}

// startWatch begins to watch transport/ itself.
func (s *Spool) startWatch() {
	w := &s.watcher
	w.s, w.root = s, filepath.Join(s.options.Postoffice, "transport")+"/"
	fs, err := fsnotify.NewBufferedWatcher(watchBuffer)
	if err != nil {
		s.warn("watching transport: " + err.Error() + "; new mail is found by sweeping")
		return
	}
	w.fs = fs
	w.watch("")
	w.narrower = newNarrower(w.root)
	w.narrow(w.root)
	s.spawn(func() {
		defer fs.Close()
		w.run(fs.Events, fs.Errors)
	})
}

// watch watches transport/prefix. It may be called again.
func (w *watcher) watch(prefix string) {
	if w.fs == nil || w.full.Load() {
		return
	}
	err := w.fs.Add(w.root + prefix)
	switch {
	case err == nil:
		w.narrow(w.root + prefix)
	case errors.Is(err, unix.ENOENT), errors.Is(err, fsnotify.ErrClosed):
	case !w.full.Swap(true):
		w.s.warn("watching transport/" + prefix + ": " + err.Error() + "; new mail there is found by sweeping")
	}
}

// watchTree watches a directory that has just appeared, announces the names in it,
// and does the same with the directories in it down to depth.
func (w *watcher) watchTree(prefix string, depth int) bool {
	w.watch(prefix)
	fd, err := postoffice.OpenDir(w.s.pair(Queue).transport, "./"+prefix)
	if err != nil {
		return true
	}
	defer postoffice.Close(fd)
	var names []Name
	for e := range entries(fd, make([]byte, direntBytes)) {
		if n, ok := named(fd, prefix, e); ok {
			names = append(names, n)
		} else if depth > 0 && isHashDir(e.name) && isKind(fd, e, unix.DT_DIR) &&
			!w.watchTree(prefix+string(e.name)+"/", depth-1) {
			return false
		}
		if len(names) == batchLimit && !w.emit(&names) {
			return false
		}
	}
	return w.emit(&names)
}

func (w *watcher) run(events <-chan fsnotify.Event, errs <-chan error) {
	var names []Name
	for {
		select {
		case <-w.s.done:
			return
		case err, ok := <-errs:
			if !ok {
				return
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.s.warn("watching transport: " + err.Error())
			}
			wake(w.s.sweeps)
		case e, ok := <-events:
			if !ok {
				return
			}
			w.onEvent(e, &names)
			// All other events that are there go into the same batch.
			for more := len(events); more > 0 && len(names) < batchLimit; more-- {
				w.onEvent(<-events, &names)
			}
			if !w.emit(&names) {
				return
			}
		}
	}
}

// onEvent adds the name that an event is about. A rename into the directory is
// also a Create.
func (w *watcher) onEvent(e fsnotify.Event, names *[]Name) {
	if !e.Has(fsnotify.Create) {
		return
	}
	path, ok := strings.CutPrefix(e.Name, w.root)
	if !ok {
		return
	}
	prefix, base := split(path)
	if id, ok := numbered(base); ok {
		*names = append(*names, Name{path, id})
		return
	}
	if level := len(prefix) / 2; isHashDir(base) && level < maxDepth {
		w.watchTree(path+"/", maxDepth-level-1)
	}
}

// emit announces the names and empties the list. It returns false if the spool
// was closed meanwhile.
func (w *watcher) emit(names *[]Name) bool {
	batch := *names
	*names = nil
	return len(batch) == 0 || w.s.announce(batch)
}

// narrower reduces the events that the kernel sends. fsnotify asks for every kind
// and has no option for fewer, but each tag and each unlink is then an event to
// make, read and drop, which costs a sixth of all processor time in a busy queue.
// The process that has the inotify descriptor may change what is watched for.
// Where we cannot find the descriptor, all events come and are dropped.
type narrower struct {
	fd int // a duplicate of fsnotify's descriptor, or -1
}

// narrowEvents are the events that announce a new name, and those by which
// fsnotify notices that a directory is gone.
const narrowEvents = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// newNarrower finds the inotify descriptor of this process that watches a
// directory, by the descriptions in /proc.
func newNarrower(dir string) narrower {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return narrower{-1}
	}
	list, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range list {
		if what, _ := os.Readlink("/proc/self/fd/" + entry.Name()); what != "anon_inode:inotify" {
			continue
		}
		text, _ := os.ReadFile("/proc/self/fdinfo/" + entry.Name())
		if !strings.Contains(string(text), fmt.Sprintf(" ino:%x sdev:", st.Ino)) {
			continue
		}
		n, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			return narrower{fd}
		}
	}
	return narrower{-1}
}

// narrow reduces the events of a directory that fsnotify watches.
func (n narrower) narrow(dir string) {
	if n.fd >= 0 {
		_, _ = unix.InotifyAddWatch(n.fd, dir, narrowEvents)
	}
}

func (n narrower) close() {
	if n.fd >= 0 {
		unix.Close(n.fd)
	}
}
