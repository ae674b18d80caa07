package receiver

// Resuming: what a start does with the staged files of a message whose origins are
// recorded.

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/xfer"
)

// resume puts a message whose origins are recorded into the queue. It reads the control file
// through the list of allowed.go, as if it were pushed now: an earlier version, which took
// more lines, may have staged it.
func (s *Store) resume(token, control string) error {
	text, err := postoffice.ReadFile(postoffice.WorkingDir, control, xfer.MaxControl)
	if err != nil {
		return err
	}
	f, err := ctlfile.Parse(text)
	if err != nil {
		return err
	}
	a := &arrival{token: token, staged: control, name: f.Name}
	if strings.HasPrefix(filepath.Base(control), heldPrefix) {
		a.dir = "hold/"
		for i := range f.Recipients {
			if a.hold = boundHold(f.Recipients[i].Hold, "", time.Now()); a.hold != "" {
				break
			}
		}
	}
	if err := s.restage(a, f, text); err != nil {
		return err
	}
	if err := s.ownMessage(a); err != nil {
		return err
	}
	one := []*arrival{a}
	if err := s.publish(one, s.publishMessage); err != nil {
		return err
	}
	// The record may be there already: then there are two that say the same.
	if err := s.recordHolds(one); err != nil {
		return err
	}
	return s.publish(one, s.publishControl)
}

// restage writes a staged control file anew if it has lines that are not taken. A recipient
// that is not taken is an error: the node that pushed it may know already that it is
// here, so it is not dropped.
func (s *Store) restage(a *arrival, f *ctlfile.File, text []byte) error {
	all := make([]int, len(f.Recipients))
	diagnostics := make(map[int64][]ctlfile.Diagnostic)
	for _, d := range f.Diagnostics {
		if d.Tag == ctlfile.Open {
			diagnostics[d.Recipient] = append(diagnostics[d.Recipient], d)
		}
	}
	for i := range f.Recipients {
		all[i] = i
		r := &f.Recipients[i]
		if why := s.options.refuses(r, &ctlfile.Origin{Channel: r.Channel, Host: r.Host, Done: done(r)}); why != "" {
			return fmt.Errorf("recipient at %d: %s", r.Offset, why)
		}
	}
	c := s.options.contents(f, all)
	c.Name = f.Name
	next := 0
	for r := range c.All() {
		was := &f.Recipients[next]
		r.Done, r.Unreported = done(was), ""
		if r.Done != 0 {
			r.Diagnostics = diagnostics[was.Offset]
		}
		next++
	}
	anew, err := c.Encode()
	if err != nil || bytes.Equal(anew, text) {
		return err
	}
	temp := a.staged + ".new" // a start removes it
	if err := postoffice.RemovePath(temp); err != nil {
		return err
	}
	if err := s.writeStaged(temp, anew); err != nil {
		return err
	}
	if err := syncPath(temp); err != nil {
		return err
	}
	if err := postoffice.Replace(postoffice.WorkingDir, temp, postoffice.WorkingDir, a.staged); err != nil {
		return err
	}
	return postoffice.SyncDir(s.controls)
}

// done returns the outcome of a recipient that is done, or 0.
func done(r *ctlfile.Recipient) ctlfile.Tag {
	if r.Tag == ctlfile.Failed || r.Tag == ctlfile.Delivered {
		return r.Tag
	}
	return 0
}

// ownMessage gives the message file of a staged or queued message to our user, with the
// mode of message files, and sets a time that is still to come to now.
func (s *Store) ownMessage(a *arrival) error {
	path := filepath.Join(s.messages, messagePrefix+a.token)
	if !postoffice.Exists(postoffice.WorkingDir, path) {
		path = filepath.Join(s.options.Postoffice, a.dir+"queue", s.below(a))
	}
	file, err := postoffice.OpenFile(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // publishMessage says so
	} else if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || inode(info) != a.name {
		return err
	}
	if s.root && info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		err = file.Chown(os.Geteuid(), s.group)
	}
	if err == nil && info.Mode().Perm() != messageMode {
		err = file.Chmod(messageMode)
	}
	if now := time.Now(); err == nil && info.ModTime().After(now) {
		err = file.SetTime(postoffice.TimeOfCopy(now))
	}
	return err
}
