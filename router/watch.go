package router

// Watching router/ for new files, with inotify.

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"zsched/internal/postoffice"
)

// watch watches router/ and its hash directories for new files.
func (r *Service) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewBufferedWatcher(1024)
	if err != nil {
		return nil, err
	}
	if err := r.addWatches(w); err != nil {
		_ = w.Close()
		return nil, err
	}
	r.watcher = w
	return w, nil
}

// addWatches adds the watches, again at each sweep. To add one again is harmless, and necessary: a
// directory that was moved away, or has taken the place of another one, is not watched. It does not read
// router/, because that takes long if a user has made many entries there.
func (r *Service) addWatches(w *fsnotify.Watcher) error {
	dir := filepath.Join(r.queue.dir, "router")
	if err := w.Add(dir); err != nil {
		return err
	}
	for letter := 'A'; letter <= 'Z'; letter++ {
		watchHashDir(w, filepath.Join(dir, string(letter)))
	}
	return nil
}

func (r *Service) onEvent(w *fsnotify.Watcher, e fsnotify.Event) {
	if !e.Has(fsnotify.Create) {
		return
	}
	name, err := filepath.Rel(filepath.Join(r.queue.dir, "router"), e.Name)
	switch {
	case err != nil:
	case postoffice.IsHashDir(name):
		if watchHashDir(w, e.Name) {
			r.startSweep()
		}
	case postoffice.IsSubmission(filepath.Base(name)):
		r.add(name)
	}
}

// watchHashDir watches a hash directory, unless it is one of a user.
func watchHashDir(w *fsnotify.Watcher, path string) (watched bool) {
	trusted, _ := postoffice.IsTrustedDir(path)
	if trusted {
		_ = w.Add(path)
	}
	return trusted
}
