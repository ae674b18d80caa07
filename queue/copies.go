package queue

// Copies: the messages that are claimed before they get their names, and what becomes of
// them after a crash.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// copies reports whether the messages are copies, and not the router's submissions.
func (c *Committer) copies() bool { return c.staging != RouterStaging }

// claim makes the files of copies durable and claims them. It returns false if it is not
// known which of them are claimed.
func (c *Committer) claim(items []*Item) bool {
	c.syncCopies(items)
	var moved []*Item
	for _, i := range items {
		if i.Err == nil {
			moved = append(moved, i)
		}
	}
	if len(moved) == 0 || c.Claim == nil {
		return true
	}
	c.Step("claim")
	err := c.Claim(moved)
	for _, i := range moved {
		switch {
		case err != nil:
			i.Err = err
		case i.Err != nil:
			c.undo(i)
		default:
			i.Claimed = true
		}
	}
	return err == nil
}

// Publish gives control files their names. After an error, it may be called again for copies
// that are claimed.
func (c *Committer) Publish(items []*Item) {
	for _, i := range items {
		if i.Claimed {
			i.Err = nil
		}
	}
	each(items, c.publish)
	c.syncCopies(items)
}

// syncCopies makes the moves of copies durable.
func (c *Committer) syncCopies(items []*Item) {
	if !c.copies() || !slices.ContainsFunc(items, func(i *Item) bool { return i.Err == nil }) {
		return
	}
	err := c.SyncAll()
	each(items, func(i *Item) error {
		if err != nil && i.Path == "" {
			c.undo(i)
		}
		return err
	})
}

// undo removes a copy that has not got its name. Its message goes last: a control file that stays
// would count once its source is delivered, and a message without one is moved to corrupt/queue.
func (c *Committer) undo(i *Item) {
	err := postoffice.Unlink(postoffice.WorkingDir, i.staged) // it may be out of sight
	if err == nil && i.Moved {
		err = postoffice.RemovePath(c.place(i.dir("queue"), i.number))
	}
	if err == nil {
		i.Moved = false
	} else {
		i.Left = &Left{name: filepath.Base(i.staged), spoolID: i.SpoolID(), number: i.number}
	}
}

// Finish ends what a crash, or an error of a Claim, has interrupted: the control file of a
// copy is staged, and the message file may be in its place already. claimed reports whether
// the copy with a spoolid counts; source is that of its Item. A copy that counts gets its
// name; the others are removed. No copy may be being committed meanwhile. left are those that
// cannot be finished now, for FinishLeft: there is no room, or the message of one that counts is not
// to be found, perhaps because its directory is away.
func (c *Committer) Finish(claimed func(spoolID, source string) (bool, error)) (left []Left, err error) {
	names, err := postoffice.ReadNames(c.StagingDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		spoolID, source, _ := strings.Cut(name, ",")
		n, ok := ctlfile.SpoolNumber(spoolID)
		if !ok {
			continue
		}
		counts, e := claimed(spoolID, source)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		l := Left{name, spoolID, n, counts}
		if e = c.FinishLeft(l); postoffice.IsNoRoom(e) || counts && errors.Is(e, fs.ErrNotExist) {
			left = append(left, l)
		} else {
			err = errors.Join(err, e)
		}
	}
	if err == nil && len(names) > 0 {
		err = c.SyncAll()
	}
	return left, err
}

// Left is a copy that a crash or an error has left, of which it is known whether it counts.
type Left struct {
	name, spoolID string
	number        uint64
	counts        bool
}

// String is the name of its control file in the staging directory.
func (l Left) String() string { return l.name }

// FinishLeft gives a copy its name, or removes it. The control file of one that counts stays until its
// message is found.
func (c *Committer) FinishLeft(l Left) error {
	staged, published := filepath.Join(c.StagingDir(), l.name), false
	for _, place := range []string{"", "hold/"} {
		dir, found, has, err := c.findCopy(place, l)
		switch {
		case err != nil:
			return err
		case !found:
			continue
		case has:
			published = true
			continue
		}
		c.Step("finish " + l.spoolID)
		if l.counts {
			return c.moveTo(staged, place+"transport", dir, l.number)
		}
		if err := postoffice.RemovePath(filepath.Join(c.office, place+"queue", dir, strconv.FormatUint(l.number, 10))); err != nil {
			return err
		}
	}
	if l.counts && !published {
		return &fs.PathError{Op: "find the message of", Path: staged, Err: fs.ErrNotExist}
	}
	if _, err := postoffice.Lstat(c.StagingDir()); err != nil {
		return err
	}
	return postoffice.RemovePath(staged)
}

// FinishAll tries to finish copies, and returns those that are still left.
func (c *Committer) FinishAll(left []Left) []Left {
	return slices.DeleteFunc(left, func(l Left) bool { return c.FinishLeft(l) == nil })
}

// findCopy returns the hash directory of the message file of a copy in queue/ or hold/queue, and
// whether it has a control file. The router's staged control files and the time in the spoolid tell it
// from a new message that has the same inode.
func (c *Committer) findCopy(place string, l Left) (dir string, found, published bool, err error) {
	transport, base := filepath.Join(c.office, "transport"), strconv.FormatUint(l.number, 10)
	if postoffice.Exists(postoffice.WorkingDir, filepath.Join(transport, RouterStaging, base)) {
		return "", false, false, nil
	}
	dir, info, err := c.findMessage(place+"queue", l.number)
	if info == nil || ctlfile.SpoolID(l.number, info.ModTime()) != l.spoolID {
		return "", false, false, err
	}
	control := filepath.Join(c.office, place+"transport", dir)
	published = postoffice.Exists(postoffice.WorkingDir, filepath.Join(control, base)) || postoffice.Exists(postoffice.WorkingDir, filepath.Join(control, "."+base))
	return dir, true, published, nil
}

// Submit stores a message and its control file in a postoffice, under the number
// of the message file's inode, and returns the path of the control file below
// transport/. It ignores Contents.Name. After an error the message is not queued and no
// file of it is left. The exception is an error together with a path: the
// message is queued, but may not survive a crash of the machine.
func Submit(office string, levels int, contents *ctlfile.Contents, message io.Reader) (path string, err error) {
	c, err := open(office, levels, SubmitStaging)
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	defer c.Close()
	file, err := postoffice.CreateTemp(office, "submit-")
	if err != nil {
		return "", fmt.Errorf("submit: %w", err)
	}
	_, err = io.Copy(file, message)
	i := &Item{Contents: contents, Message: file.Name()}
	if err = errors.Join(err, file.Close()); err == nil {
		c.Commit([]*Item{i})
		err = i.Err
	}
	if i.Path == "" {
		_ = postoffice.RemovePath(file.Name())
	}
	if err != nil {
		return i.Path, fmt.Errorf("submit: %w", err)
	}
	return i.Path, nil
}
