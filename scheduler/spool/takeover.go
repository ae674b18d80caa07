package spool

// Takeover: the locks that the processes of another machine have left in a
// postoffice.

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// ClearLocks clears every lock in the control files of a postoffice, and returns how
// many there were. It is called after a takeover, before the spool is opened: the
// processes that the locks name belong to a dead machine, and a process of this one
// may have the same pid by chance. It reads every control file. Files that cannot be
// read are left for the loaders, and returned as errors.
func ClearLocks(office string) (cleared int, failures []error) {
	var control postoffice.Control
	transport, err := postoffice.OpenDir(postoffice.WorkingDir, filepath.Join(office, "transport"))
	if err == nil {
		control, err = postoffice.NewControl(transport)
		postoffice.Close(transport)
	}
	if err != nil {
		return 0, []error{err}
	}
	c := &lockClearer{paths: make(chan lockedFile, 1024)}
	var workers sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		workers.Go(c.work)
	}
	for _, p := range []Place{Queue, Hold, Postman} {
		if c.control = control; p != Queue {
			c.control = control.Kept()
		}
		c.walk(filepath.Join(office, p.dir()+"transport"), maxDepth)
	}
	close(c.paths)
	workers.Wait()
	return int(c.cleared.Load()), c.failures
}

// lockClearer clears the locks of files whose paths its workers receive.
type lockClearer struct {
	control postoffice.Control // of the directories that are being walked
	paths   chan lockedFile
	cleared atomic.Int64

	mu       sync.Mutex
	failures []error
}

// lockedFile is a control file that may have locks.
type lockedFile struct {
	control postoffice.Control
	path    string
}

func (c *lockClearer) fail(path string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, fmt.Errorf("clearing the locks in %q: %w", path, err))
}

// walk sends the control files in a directory and in its hash directories.
func (c *lockClearer) walk(path string, depth int) {
	dir, err := postoffice.OpenDir(postoffice.WorkingDir, path)
	if err == unix.ENOENT {
		return
	}
	if err != nil {
		c.fail(path, err)
		return
	}
	defer postoffice.Close(dir)
	for e := range entries(dir, make([]byte, direntBytes)) {
		switch _, ok := named(dir, "", e); {
		case ok:
			c.paths <- lockedFile{c.control, filepath.Join(path, string(e.name))}
		case depth > 0 && isHashDir(e.name) && isKind(dir, e, unix.DT_DIR):
			c.walk(filepath.Join(path, string(e.name)), depth-1)
		}
	}
}

func (c *lockClearer) work() {
	var buf []byte
	for f := range c.paths {
		if err := c.clear(f, &buf); err != nil {
			c.fail(f.path, err)
		}
	}
}

// clear clears the locks in one file. A malformed file has none that anybody respects,
// and a file that is never used needs none.
func (c *lockClearer) clear(f lockedFile, buf *[]byte) error {
	d, err := readControl(f.control, postoffice.WorkingDir, f.path, unix.O_RDONLY, buf)
	defer d.close()
	if _, bad := err.(*malformed); bad || err == errGone || errors.Is(err, postoffice.ErrForeign) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range d.file.Recipients {
		if d.file.Recipients[i].Tag != ctlfile.Locked {
			continue
		}
		if err := d.tag(i, ctlfile.Open); err != nil {
			return err
		}
		c.cleared.Add(1)
	}
	return nil
}
