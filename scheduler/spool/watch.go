package spool

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watchBuffer is how many events may wait for us outside the kernel's queue.
const watchBuffer = 1024

// watcher hears of names that appear in transport/ and its letter
// directories. All it says are hints: what it misses the sweep finds, and
// where it cannot be had at all the spool does without.
//
// Every directory is watched before it is read, so that no name can fall
// between the two: the sweep watches the letter directories as it comes to
// them, and those made later are watched, and looked into, when they appear.
type watcher struct {
	s    *Spool
	fs   *fsnotify.Watcher // nil where the system has no watches to give
	root string            // transport/, as events name it, with a slash
	full atomic.Bool       // the system gives no more
	narrower
}

// startWatch begins to watch transport/ itself.
func (s *Spool) startWatch() {
	w := &s.watcher
	w.s, w.root = s, filepath.Join(s.options.Postoffice, "transport")+"/"
	w.narrower.fd = -1
	fs, err := fsnotify.NewBufferedWatcher(watchBuffer)
	if err != nil {
		s.trouble("watching transport: " + err.Error() + "; new mail is found by sweeping")
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

// watch watches transport/prefix, once however often it is asked to.
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
		w.s.trouble("watching transport/" + prefix + ": " + err.Error() + "; new mail there is found by sweeping")
	}
}

// explore watches a directory that has just appeared, gives out what is in it
// already, and does the same with the directories in it down to depth.
func (w *watcher) explore(prefix string, depth int) bool {
	w.watch(prefix)
	fd, err := openDir(w.s.pairs[Queue].transport, "./"+prefix)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var names []Name
	for e := range entries(fd, make([]byte, direntBytes)) {
		if n, ok := named(fd, prefix, e); ok {
			names = append(names, n)
		} else if depth > 0 && isLetter(e.name) && isKind(fd, e, unix.DT_DIR) &&
			!w.explore(prefix+string(e.name)+"/", depth-1) {
			return false
		}
		if len(names) == batchLimit && !w.give(&names) {
			return false
		}
	}
	return w.give(&names)
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
				w.s.trouble("watching transport: " + err.Error())
			}
			w.s.Sweep()
		case e, ok := <-events:
			if !ok {
				return
			}
			w.heed(e, &names)
			// What else has been heard by now goes into the same batch.
			for more := len(events); more > 0 && len(names) < batchLimit; more-- {
				w.heed(<-events, &names)
			}
			if !w.give(&names) {
				return
			}
		}
	}
}

// heed adds to names what an event tells of. A rename into the directory is a
// Create too.
func (w *watcher) heed(e fsnotify.Event, names *[]Name) {
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
	if level := len(prefix) / 2; isLetter(base) && level < maxDepth {
		w.explore(path+"/", maxDepth-level-1)
	}
}

// give gives out the names and empties the list. It is false when the spool
// was closed meanwhile.
func (w *watcher) give(names *[]Name) bool {
	batch := *names
	*names = nil
	return len(batch) == 0 || w.s.announce(batch)
}
