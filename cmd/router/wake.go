package main

// What wakes the router: inotify and datagrams. Both are hints; the sweep finds
// every submission.

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"zsched/internal/postoffice"
)

// watch watches router/ and its hash directories for new files.
func (r *service) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewBufferedWatcher(1024)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.queue.dir, "router")
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return nil, err
	}
	names, _ := postoffice.ReadNames(dir)
	for _, name := range names {
		if path := filepath.Join(dir, name); postoffice.IsHashDir(name) && postoffice.IsTrustedDir(path) {
			_ = w.Add(path)
		}
	}
	return w, nil
}

// listen returns a channel with the names of submissions that datagrams to the
// socket ROUTERNOTIFY announce: "NEW router X/1234". Anybody may send one.
func (r *service) listen(address string) <-chan string {
	path := strings.TrimPrefix(address, "UNIX:")
	if path == "" {
		return nil
	}
	if info, err := postoffice.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		_ = postoffice.RemovePath(path)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		err = os.Chmod(path, 0o222)
	}
	if err != nil {
		r.log.Warn().Err(err).Msg("notify socket; new mail is found by watching router/")
		return nil
	}
	names := make(chan string, batchLimit)
	go func() {
		buf := make([]byte, 512)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			name, ok := strings.CutPrefix(string(buf[:n]), "NEW router ")
			if dir, base := filepath.Split(name); ok && postoffice.IsSubmission(base) && (dir == "" || postoffice.IsHashDir(strings.TrimSuffix(dir, "/"))) {
				select {
				case names <- name:
				default: // the sweep finds it
				}
			}
		}
	}()
	return names
}

func (r *service) onEvent(w *fsnotify.Watcher, e fsnotify.Event) {
	if !e.Has(fsnotify.Create) {
		return
	}
	name, err := filepath.Rel(filepath.Join(r.queue.dir, "router"), e.Name)
	if err != nil {
		return
	}
	if postoffice.IsHashDir(name) {
		if postoffice.IsTrustedDir(e.Name) {
			_ = w.Add(e.Name)
			r.sweep()
		}
		return
	}
	if postoffice.IsSubmission(filepath.Base(name)) {
		r.add(name)
	}
}
