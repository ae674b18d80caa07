// Package queue is how mail comes into a postoffice: submissions (the message and its
// envelope, for the router) into router/, and messages with their control files into the
// queue.
//
// Messages come into the queue together, so that they share their waits for the disk. The
// number N of a message is the inode of its file:
//
//	step                                          a crash after it leaves
//	1 write  transport/DIR/N, the control file,   files that Recover removes
//	         staged
//	2 sync   it, and the message                  the same
//	3 move   the message to queue/F/F/N           a message that Recover completes (router)
//	                                              or removes (copies)
//	4 move   the control file to transport/F/F/N  mail that is in the queue
//
// DIR is .router for the router, whose messages come from router/, .scheduler for copies of
// mail that is in the queue already, .xfer for mail of other nodes, and .submit for Submit. A submission counts
// from step 3 on: it is not in router/ any more. Its moves are not synced, because a power
// cut that undoes them leaves the submission in router/, where it is routed again.
//
// A copy counts when it is claimed, between steps 3 and 4: the recipients from whom it was
// made are marked then, on disk, or their ids are recorded. After a crash, Finish gives the
// copies that are claimed their names and removes the others, so that no recipient is lost
// and none is there twice.
package queue

// Committing: putting messages into the queue together.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Item is a message for Commit.
type Item struct {
	Contents *ctlfile.Contents // Commit sets its Name
	Message  string            // the path of the message file, which is complete
	File     *postoffice.File  // the same, if it is open; Commit does not close it
	// Held puts the message into hold/, whose directories exist, instead of the queue.
	Held bool
	// For is what the caller needs in Claim.
	For any
	// Source names what a copy is made from, for Finish; it has no slash. "": nothing.
	Source string

	// Path is that of the control file below transport/, or hold/transport/. It is set when
	// the message is in the queue. With an error, it may not survive a crash.
	Path string
	// Moved says that the message file is in queue/. With an error and without Path, Recover
	// completes the message.
	Moved bool
	// Claimed says that a copy counts, although it may have no name yet: with an error, Publish
	// is to be called again.
	Claimed bool
	// Left is what is left of a copy that does not count and cannot be removed, for FinishLeft.
	// While its source is there, a Finish removes it too.
	Left *Left
	Err  error

	info   os.FileInfo
	number uint64
	staged string // the path of the staged control file
}

// SpoolID returns the spoolid of the message. It is known after Commit.
func (i *Item) SpoolID() string { return ctlfile.SpoolID(i.number, i.info.ModTime()) }

// ErrContents says that a control file with these contents cannot be written.
var ErrContents = errors.New("the message cannot have a control file")

// Committer puts messages into the queue of a postoffice. Several goroutines may use one for
// copies, and one goroutine for the router.
type Committer struct {
	Levels int // of hash directories
	// Check is called before files are changed; an error ends the commit. nil: none.
	Check func() error
	// Step is called before each change; tests interrupt there.
	Step func(what string)
	// Claim is called with copies that are on disk but have no names yet. A copy whose Err it
	// sets is undone. With an error of its own, it is not known which are claimed: all of them
	// stay as they are until Finish is called. nil: a copy is claimed by its name.
	Claim func(items []*Item) error
	// SyncAll makes everything in transport/ and queue/ durable. Tests replace it.
	SyncAll func() error

	office  string
	staging string             // the name of the directory of staged control files
	roots   []*postoffice.File // transport/, and queue/ if it is on another file system
	dirs    sync.Map           // hash directories that are known to exist
}

// Commit puts messages into the queue. The Err of each says what became of it: a message
// without Moved is where it was.
func (c *Committer) Commit(items []*Item) {
	err := c.MakeStaging()
	// The scheduler gives transport/ another group when it starts with agents that are not
	// root.
	group, e := postoffice.Group(filepath.Join(c.office, "transport"))
	err = errors.Join(err, e)
	each(items, func(i *Item) error {
		if err != nil {
			return err
		}
		wrong := c.stage(i, group)
		if wrong != nil && c.copies() && i.staged != "" && postoffice.Exists(postoffice.WorkingDir, i.staged) {
			c.undo(i)
		}
		return wrong
	})
	if !slices.ContainsFunc(items, func(i *Item) bool { return i.Err == nil }) {
		return
	}
	// The removal of an earlier control file of this number becomes durable as well: it must
	// not come back after a power cut.
	c.Step("sync staged")
	if err = c.SyncAll(); err == nil && c.Check != nil {
		err = c.Check()
	}
	each(items, func(i *Item) error {
		wrong := err
		if wrong == nil {
			wrong = c.moveMessage(i)
		}
		if wrong != nil && (!i.Moved || c.copies()) {
			c.undo(i)
		}
		return wrong
	})
	if err != nil {
		return
	}
	if c.copies() && !c.claim(items) {
		return
	}
	c.Publish(items)
}

// each does a step for the items that have no error.
func each(items []*Item, step func(i *Item) error) {
	for _, i := range items {
		if i.Err == nil {
			i.Err = step(i)
		}
	}
}

// stage writes the control file, and gives the message file the group and mode with which
// agents can read it.
func (c *Committer) stage(i *Item, group int) (err error) {
	file := i.File
	if file == nil {
		if file, err = openMessage(i.Message); err != nil {
			return err
		}
		defer file.Close()
	}
	if i.info, err = file.Stat(); err != nil {
		return err
	}
	i.number = i.info.Sys().(*syscall.Stat_t).Ino
	if i.Contents.Body > i.info.Size() {
		return fmt.Errorf("%w: body offset %d in a message of %d bytes", ErrContents, i.Contents.Body, i.info.Size())
	}
	i.Contents.Name = strconv.FormatUint(i.number, 10)
	text, err := i.Contents.Encode()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrContents, err)
	}
	if c.Levels > 0 {
		if err := errors.Join(c.makeDir(i.dir("queue"), i.number), c.makeDir(i.dir("transport"), i.number)); err != nil {
			return err
		}
	}
	if err := c.isFree(i); err != nil {
		return err
	}
	// In a copy of a postoffice the numbers of the messages are not those of their inodes, and new
	// files get inodes with these numbers.
	for _, dir := range []string{"queue", "hold/queue"} {
		if queued := c.place(dir, i.number); postoffice.Exists(postoffice.WorkingDir, queued) {
			return &os.PathError{Op: "queue a message", Path: queued, Err: fs.ErrExist}
		}
	}
	if err := i.share(file, group); err != nil {
		return err
	}
	i.staged = filepath.Join(c.StagingDir(), i.Contents.Name)
	if c.copies() {
		i.staged = filepath.Join(c.StagingDir(), i.SpoolID())
	}
	if i.Source != "" {
		i.staged += "," + i.Source
	}
	c.Step("write " + i.Contents.Name)
	return postoffice.WriteControl(i.staged, text, group)
}

func (i *Item) share(file *postoffice.File, group int) error {
	mode := uint32(i.info.Mode().Perm()|0o440) & 0o660
	if os.Geteuid() != 0 {
		if int(i.info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
			return nil
		}
		group = -1
	}
	return file.Share(group, mode)
}

// isFree returns an error if there is a control file of this number. A power cut can leave
// that of an earlier message although the message file is gone, because they were in
// different directories. It must never lie beside another message. It is also possible that
// the power cut has undone only the move of this message; then the scheduler moves the
// control file to corrupt/ a minute later, and the submission is routed after that.
func (c *Committer) isFree(i *Item) error {
	if control := c.place(i.dir("transport"), i.number); postoffice.Exists(postoffice.WorkingDir, control) {
		return &os.PathError{Op: "queue a message beside the control file of another", Path: control, Err: fs.ErrExist}
	}
	return nil
}

// moveMessage moves a message into queue/.
func (c *Committer) moveMessage(i *Item) error {
	to := c.place(i.dir("queue"), i.number)
	c.Step("move message " + i.Contents.Name)
	if err := c.isFree(i); err != nil {
		return err
	}
	if err := c.move(i.Message, i.dir("queue"), i.number); err != nil {
		return err
	}
	now, err := postoffice.Lstat(to)
	if err != nil {
		i.Moved = true // Recover completes it, if it is not a copy
		return err
	}
	if now.Sys().(*syscall.Stat_t).Ino != i.number {
		// Meanwhile its owner has put another file under that name, and perhaps a third one.
		c.Step("return " + i.Contents.Name)
		err := postoffice.Publish(to, i.Message)
		if errors.Is(err, fs.ErrExist) {
			err = postoffice.Publish(to, filepath.Join(filepath.Dir(i.Message), strconv.FormatUint(unusedNumber(), 10)))
		}
		return errors.Join(postoffice.ErrReplaced, err)
	}
	i.Moved = true
	return nil
}

// publish gives the control file its name.
func (c *Committer) publish(i *Item) error {
	if i.Path != "" {
		return nil
	}
	c.Step("publish " + i.Contents.Name)
	if err := c.move(i.staged, i.dir("transport"), i.number); err != nil {
		if c.copies() && !i.Claimed {
			c.undo(i)
		}
		return err
	}
	i.Path = ctlfile.HashDir(i.number, c.Levels) + i.Contents.Name
	return nil
}
