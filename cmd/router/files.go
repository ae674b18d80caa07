package main

// Single steps on files: writing and copying into the staging directory, moving,
// making hash directories, and waiting for the disk.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// prepare makes the hash directories of a number. The sync of the staged files,
// which comes later, makes them durable as well.
func (q *committer) prepare(n uint64) error {
	if q.levels == 0 {
		return nil
	}
	for _, name := range []string{"queue", "transport"} {
		dir := filepath.Dir(q.place(name, n))
		if q.dirs[dir] {
			continue
		}
		if _, err := postoffice.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			q.step("make " + dir)
		}
		if _, err := postoffice.MakeQueueDir(q.office, name, ctlfile.HashDir(n, q.levels)); err != nil {
			return err
		}
		q.dirs[dir] = true
	}
	return nil
}

// write writes a control file into the staging directory. If there is one of that
// name, an earlier job has failed to remove it.
func (q *committer) write(name string, text []byte) error {
	q.step("write " + name)
	return postoffice.WriteControlUnsynced(q.staging(name), text, q.group)
}

// minFree is how many bytes of the disk stay free when messages are copied.
const minFree = 16 << 20

// checkRoom returns an error if the disk has no room for the copies of a job's message: the
// holes of a sparse file fill the disk when they are copied.
func (q *committer) checkRoom(j *job) error {
	copies := int64(len(j.contents) - 1)
	if copies == 0 {
		return nil
	}
	free, _, err := postoffice.FreeSpace(q.staging(""))
	if err != nil {
		return err
	}
	if (free-minFree)/copies < j.info.Size() {
		return fmt.Errorf("copy a message of %d bytes for %d other senders: %w", j.info.Size(), copies, syscall.ENOSPC)
	}
	return nil
}

// copyMessage copies a job's message into the staging directory and returns the
// inode of the copy. It belongs to the owner of the submission.
func (q *committer) copyMessage(j *job) (uint64, error) {
	q.step("copy " + decimal(j.inode))
	file, err := postoffice.CreateIn(q.staging(""), "new-")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		_, err = io.Copy(file, io.NewSectionReader(j.file, 0, j.info.Size()))
	}
	if err == nil && q.root {
		err = file.Chown(j.uid, q.group)
	}
	if err == nil {
		err = file.Chmod(0o640)
	}
	if err == nil {
		// The age of the message is that of the submission.
		err = file.SetTime(j.info.ModTime())
	}
	if err == nil {
		err = postoffice.Replace(postoffice.WorkingDir, file.Name(), postoffice.WorkingDir, q.staging(decimal(inodeOf(info))+".msg"))
	}
	if err != nil {
		_ = postoffice.RemovePath(file.Name())
		return 0, err
	}
	return inodeOf(info), nil
}

func (q *committer) syncfs() error {
	q.waits++
	if !q.noSync {
		if err := q.fs.SyncAll(); err != nil {
			return fmt.Errorf("sync the file system of %s: %w", q.fs.Name(), err)
		}
	}
	return nil
}

// syncPath syncs a file or a directory.
func (q *committer) syncPath(path string) error {
	q.waits++
	if q.noSync {
		return nil
	}
	info, err := postoffice.Lstat(path)
	if err == nil && info.IsDir() {
		return syncdir.Sync(path)
	}
	file, err := postoffice.OpenFile(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// move renames a file to its number in queue/ or transport/. It makes the hash
// directory if it is missing, and overwrites nothing.
func (q *committer) move(from, name string, n uint64) error {
	to := q.place(name, n)
	err := postoffice.Publish(from, to)
	if errors.Is(err, fs.ErrNotExist) && q.levels > 0 {
		if _, e := postoffice.Lstat(from); e != nil {
			return err
		}
		if _, e := postoffice.MakeQueueDir(q.office, name, ctlfile.HashDir(n, q.levels)); e != nil {
			return e
		}
		// The new directory has to be durable as well. It is missing only if somebody
		// has removed it since prepare, or if recovery calls this.
		if e := q.syncfs(); e != nil {
			return e
		}
		err = postoffice.Publish(from, to)
	}
	return err
}
