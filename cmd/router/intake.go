package main

// Submissions in router/: their names, how one is opened, and how one that cannot
// be read is quarantined.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"zsched/router"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// submission is a file of router/ that is open.
type submission struct {
	router.Submission
	file *postoffice.File
	info os.FileInfo
}

// open opens a file of router/. It must be a regular file with one name only: a
// user could give another name to a file of somebody else.
func (q *submissions) open(name string) (*submission, error) {
	path := filepath.Join(q.dir, "router", name)
	if dir, _ := filepath.Split(name); dir != "" && !postoffice.IsTrustedDir(filepath.Dir(path)) {
		// It could be a link to any directory, and root would take the files there for
		// mail. Anybody can send a datagram with this name, so nothing is logged.
		return nil, fs.ErrNotExist
	}
	// Opening a device can already have an effect.
	if info, err := postoffice.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	fd, err := postoffice.OpenAt(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	switch {
	case err == unix.ELOOP || err == unix.ENXIO:
		return nil, errNotRegular
	case err == unix.ENAMETOOLONG: // of a datagram, too
		return nil, fs.ErrNotExist
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := postoffice.NewFile(fd, path)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	} else if err == nil && info.Sys().(*syscall.Stat_t).Nlink != 1 {
		err = router.Unreadablef("the file has %d names", info.Sys().(*syscall.Stat_t).Nlink)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &submission{router.Submission{
		Name: name, Message: file, Size: info.Size(), ModifiedAt: info.ModTime(), Number: inodeOf(info), UID: ownerOf(info),
	}, file, info}, nil
}

// names lists the submissions in router/ and those of its hash directories that can
// be read.
func (q *submissions) names() []string {
	names, _ := q.list()
	return names
}

// list lists the submissions in router/ and its hash directories. Together with an
// error, it returns the names that it could read.
func (q *submissions) list() (names []string, err error) {
	top, err := postoffice.ReadNames(filepath.Join(q.dir, "router"))
	for _, name := range top {
		if postoffice.IsSubmission(name) {
			names = append(names, name)
		} else if postoffice.IsHashDir(name) && postoffice.IsTrustedDir(filepath.Join(q.dir, "router", name)) {
			below, e := postoffice.ReadNames(filepath.Join(q.dir, "router", name))
			err = errors.Join(err, e)
			for _, base := range below {
				if postoffice.IsSubmission(base) {
					names = append(names, name+"/"+base)
				}
			}
		}
	}
	return names, err
}

// maxAside is the length in bytes to which quarantine cuts the name of a file: with a
// number and ".reason" it has at most 255, the limit of file systems.
const maxAside = 240

// maxAsideOfUser bounds the files of one user in corrupt/router/. Their reasons belong to
// the router's user, whatever the quota of the other, and in a long list nobody would
// notice a file that matters.
const maxAsideOfUser = 1000

// asideOf returns how many files of a user are in corrupt/router/.
func (q *submissions) asideOf(uid int) int {
	if now := time.Now(); q.aside == nil || now.Sub(q.asideAt) > sweepInterval {
		q.aside, q.asideAt = map[int]int{}, now
		dir := filepath.Join(q.dir, "corrupt", "router")
		names, _ := postoffice.ReadNames(dir)
		for _, name := range names {
			if info, err := postoffice.Lstat(filepath.Join(dir, name)); err == nil && !strings.HasSuffix(name, ".reason") {
				q.aside[ownerOf(info)]++
			}
		}
	}
	return q.aside[uid]
}

// quarantine moves a file to corrupt/router/, with the reason in a file beside it. It
// overwrites nothing.
func (q *submissions) quarantine(path, name, reason string) error {
	dir := filepath.Join(q.dir, "corrupt", "router")
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, d, 0o750); err != nil {
			return &os.PathError{Op: "mkdir", Path: d, Err: err}
		}
	}
	aside := name[:min(len(name), maxAside)]
	for try := range 1000 {
		to := filepath.Join(dir, aside)
		if try > 0 {
			to += "." + strconv.Itoa(try)
		}
		if _, err := postoffice.Lstat(to); err == nil {
			continue
		}
		q.Step("reason " + name)
		text := fmt.Sprintf("%s, %s\n%s\n", path, time.Now().UTC().Format(time.RFC3339), reason)
		if err := postoffice.WriteFile(postoffice.WorkingDir, to+".reason", []byte(text), false); err != nil {
			return err
		}
		q.Step("aside " + name)
		if err := postoffice.Publish(path, to); err != nil {
			_ = postoffice.RemovePath(to + ".reason")
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return err
		}
		return postoffice.SyncDir(dir)
	}
	return fmt.Errorf("move %s to corrupt/router: %w", path, fs.ErrExist)
}

// loginName returns the name of a user, or "user" with the number if there is none.
func loginName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil && ctlfile.PlainAddress(u.Username) {
		return u.Username
	}
	return "user" + strconv.Itoa(uid)
}

// ownerOf returns the user who owns a file.
func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

func inodeOf(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
