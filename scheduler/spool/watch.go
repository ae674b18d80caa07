package spool

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// watchBuffer is how many events may wait for us outside the kernel's queue.
const watchBuffer = 1024

// watcher hears of names that appear in transport/ and its letter
// directories. All it says are hints: what it misses the sweep finds, and
// where it cannot be had at all the spool does without.
type watcher struct {
	s    *Spool
	fs   *fsnotify.Watcher
	root string // transport/, as events name it, with a slash
	full bool   // the system allows no more watches
}

// startWatch begins to watch everything that is there.
func (s *Spool) startWatch() {
	fs, err := fsnotify.NewBufferedWatcher(watchBuffer)
	if err != nil {
		s.trouble("watching transport: " + err.Error() + "; new mail is found by sweeping")
		return
	}
	w := &watcher{s: s, fs: fs, root: filepath.Join(s.options.Postoffice, "transport") + "/"}
	w.add("", maxDepth, false)
	s.spawn(func() {
		defer fs.Close()
		w.run(fs.Events, fs.Errors)
	})
}

// add watches transport/prefix and the letter directories in it. When asked
// to look, it also gives out what is there already: files can appear in a new
// directory before it is watched.
func (w *watcher) add(prefix string, depth int, look bool) {
	if w.full {
		return
	}
	if err := w.fs.Add(w.root + prefix); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return
		}
		w.full = true
		w.s.trouble("watching transport/" + prefix + ": " + err.Error() + "; new mail there is found by sweeping")
		return
	}
	if depth == 0 && !look {
		return
	}
	fd, err := openDir(w.s.pairs[Queue].transport, "./"+prefix)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var names []Name
	for e := range entries(fd, make([]byte, direntBytes)) {
		if depth > 0 && isLetter(e.name) && isKind(fd, e, unix.DT_DIR) {
			w.add(prefix+string(e.name)+"/", depth-1, look)
			continue
		}
		if n, ok := named(fd, prefix, e); look && ok {
			names = append(names, n)
		}
		if len(names) == batchLimit && !w.give(&names) {
			return
		}
	}
	w.give(&names)
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
		w.add(path+"/", maxDepth-level-1, true)
	}
}

// give gives out the names and empties the list. It is false when the spool
// was closed meanwhile.
func (w *watcher) give(names *[]Name) bool {
	batch := w.s.intake.unexpected(*names, false)
	*names = nil
	return len(batch) == 0 || w.s.announce(batch)
}
