package queue

// Places: the files and hash directories of transport/ and queue/ in which a Committer works,
// and the directory of staged control files.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// OpenRouter returns the Committer of the router. Close ends it.
func OpenRouter(office string, levels int) (*Committer, error) {
	return open(office, levels, RouterStaging)
}

// OpenCopies returns a Committer for copies of mail in the queue. Close ends it.
func OpenCopies(office string, levels int) (*Committer, error) {
	return open(office, levels, copyStaging)
}

// OpenArrivals returns a Committer for mail that other nodes move here. Close ends it.
func OpenArrivals(office string, levels int) (*Committer, error) {
	return open(office, levels, XferStaging)
}

// The directories of staged control files, below transport/. The scheduler removes what a crash
// has left of Submit.
const (
	RouterStaging = ".router"
	copyStaging   = ".scheduler"
	XferStaging   = ".xfer"
	SubmitStaging = ".submit"
)

// StagingDirs are all of them.
var StagingDirs = [...]string{RouterStaging, copyStaging, XferStaging, SubmitStaging}

func open(office string, levels int, staging string) (*Committer, error) {
	c := &Committer{office: office, Levels: levels, staging: staging, Step: func(string) {}}
	c.SyncAll = c.syncRoots
	var devices []uint64
	for _, name := range []string{"transport", "queue"} {
		dir, err := postoffice.OpenDirFile(filepath.Join(office, name))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.roots = append(c.roots, dir)
		info, err := dir.Stat()
		if err != nil {
			c.Close()
			return nil, err
		}
		devices = append(devices, info.Sys().(*syscall.Stat_t).Dev)
	}
	if devices[0] == devices[1] {
		_ = c.roots[1].Close()
		c.roots = c.roots[:1]
	}
	return c, nil
}

// Close releases the directories.
func (c *Committer) Close() {
	for _, dir := range c.roots {
		_ = dir.Close()
	}
}

func (c *Committer) syncRoots() error {
	for _, dir := range c.roots {
		if err := dir.SyncAll(); err != nil {
			return fmt.Errorf("sync the file system of %s: %w", dir.Name(), err)
		}
	}
	return nil
}

// StagingDir returns the path of the directory of staged control files.
func (c *Committer) StagingDir() string { return filepath.Join(c.office, "transport", c.staging) }

// MakeStaging makes that directory if it is not there: at the start, and when somebody has
// removed it.
func (c *Committer) MakeStaging() error {
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return err
		}
	}
	dir := c.StagingDir()
	info, err := postoffice.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && postoffice.IsUnfinished(info) {
		if err = postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err == nil {
			info, err = postoffice.Lstat(dir)
		}
	}
	if err == nil && (!info.IsDir() || info.Mode().Perm()&0o077 != 0 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid()) {
		err = fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	return err
}

// place returns the path of the file with a number below queue/, transport/ or those of
// hold/.
func (c *Committer) place(dir string, n uint64) string {
	return filepath.Join(c.office, dir, ctlfile.HashDir(n, c.Levels), strconv.FormatUint(n, 10))
}

func (i *Item) dir(name string) string {
	if i.Held {
		return "hold/" + name
	}
	return name
}

// makeDir makes the hash directory of a number below queue/ or transport/. The sync of the
// staged files, which comes later, makes it durable as well.
func (c *Committer) makeDir(name string, n uint64) error {
	dir := filepath.Dir(c.place(name, n))
	if _, known := c.dirs.Load(dir); known {
		return nil
	}
	c.Step("make " + dir)
	_, err := postoffice.MakeQueueDir(c.office, name, ctlfile.HashDir(n, c.Levels))
	if err == nil {
		c.dirs.Store(dir, true)
	}
	return err
}

// move renames a file to its number in queue/ or transport/.
func (c *Committer) move(from, name string, n uint64) error {
	return c.moveTo(from, name, ctlfile.HashDir(n, c.Levels), n)
}

// moveTo renames a file to its number in a hash directory of queue/ or transport/. It makes the
// directory if somebody has removed it since, and overwrites nothing.
func (c *Committer) moveTo(from, name, prefix string, n uint64) error {
	to := filepath.Join(c.office, name, prefix, strconv.FormatUint(n, 10))
	err := postoffice.Publish(from, to)
	if errors.Is(err, fs.ErrNotExist) && prefix != "" {
		if _, e := postoffice.Lstat(from); e != nil {
			return err
		}
		if _, e := postoffice.MakeQueueDir(c.office, name, prefix); e != nil {
			return e
		}
		if e := c.SyncAll(); e != nil {
			return e
		}
		err = postoffice.Publish(from, to)
	}
	return err
}

// openMessage opens a regular file. To open a device can already have an effect.
func openMessage(path string) (*postoffice.File, error) {
	info, err := postoffice.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, err
	}
	return postoffice.OpenFile(path, os.O_RDONLY)
}
