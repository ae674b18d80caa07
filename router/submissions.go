package router

// Submissions in router/: how one is opened, how a batch of them comes into the queue, and
// how one that cannot be read is quarantined.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/internal/text"
	"zsched/queue"
)

// submissions are the directories of the postoffice in which the router works.
type submissions struct {
	*queue.Committer
	dir   string
	claim *process.Claim // nil in tests within one process
}

// job is a submission in a batch: a file of router/ that is open, what it becomes, and its
// place in the queue.
type job struct {
	Submission
	*Routed
	queue.Item
}

func openSubmissions(dir string, levels int) (*submissions, error) {
	top, err := postoffice.OpenDirFile(filepath.Join(dir, "router"))
	if err != nil {
		return nil, err
	}
	_ = top.Close()
	q := &submissions{dir: dir}
	if q.Committer, err = queue.OpenRouter(dir, levels); err != nil {
		return nil, err
	}
	q.Check = func() error { return q.claim.Check() }
	if err := q.MakeStaging(); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

// open opens a file of router/. It must be a regular file with one name only: a
// user could give another name to a file of somebody else. Anything else that is not a
// regular file is no submission, and left alone: the error is fs.ErrNotExist.
func (q *submissions) open(name string) (*job, error) {
	path := filepath.Join(q.dir, "router", name)
	// Opening a device can already have an effect.
	info, err := postoffice.Lstat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	fd, err := postoffice.OpenAt(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := postoffice.NewFile(fd, path)
	info, err = file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	} else if err == nil && info.Sys().(*syscall.Stat_t).Nlink != 1 {
		err = Unreadablef("the file has %d names", info.Sys().(*syscall.Stat_t).Nlink)
	}
	if info == nil {
		_ = file.Close()
		return nil, err
	}
	j := &job{Item: queue.Item{Message: path, File: file}, Submission: Submission{
		Name: name, Message: file, Size: info.Size(), ModifiedAt: info.ModTime(), Number: inodeOf(info), UID: ownerOf(info),
	}}
	if err != nil {
		_ = file.Close()
	}
	return j, err
}

// commit puts jobs into the queue together. Each job's Err says what became of it.
func (q *submissions) commit(jobs []*job) {
	items := make([]*queue.Item, len(jobs))
	for i, j := range jobs {
		j.Item.Contents = j.Routed.Contents
		items[i] = &j.Item
	}
	q.Commit(items)
	for _, j := range jobs {
		if errors.Is(j.Err, queue.ErrContents) {
			j.Err = Unreadable{Err: j.Err}
		}
	}
}

// maxAside is the length in bytes to which quarantine cuts the name of a file: with a
// number and ".reason" it has at most 255, the limit of file systems.
const maxAside = 240

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
		// The owner of the file has chosen its name, which is in the reason too.
		why := fmt.Sprintf("%s, %s\n%s\n", text.Escape(path), time.Now().UTC().Format(time.RFC3339), text.Escape(reason))
		if err := postoffice.WriteFile(postoffice.WorkingDir, to+".reason", []byte(why), false); err != nil {
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

// ownerOf returns the user who owns a file.
func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }

func inodeOf(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
