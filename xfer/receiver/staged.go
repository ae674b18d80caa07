package receiver

// Staged messages: the files of a message that is not in the queue yet, in
// transport/.xfer and queue/.xfer.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/xfer"
)

// The directory of staged messages, below transport/ and queue/, and how the names of
// their files begin.
const (
	stagedDir     = ".xfer"
	messagePrefix = "m-"
	queuedPrefix  = "c-"
	heldPrefix    = "h-"
)

// arrival is a message that a node pushes.
type arrival struct {
	push    xfer.Push
	from    xfer.Node // which pushes it
	token   string
	message *postoffice.File
	control *ctlfile.File

	reply   xfer.Reply
	err     error            // why it is not taken
	origins []ctlfile.Origin // of the recipients that are taken now
	staged  string           // path of the control file that is not in the queue yet
	name    string           // of the message in the queue
	dir     string           // "" or "hold/"
	hold    string           // the H line of a held message: who held it, and why
	queued  bool             // its control file is in the queue
}

// create makes the file of a message that is about to be read. From the beginning the
// file is one that a connection works on, so that recover does not remove it.
func (s *Store) create(push xfer.Push) (*arrival, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := postoffice.CreateIn(s.messages, messagePrefix)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody has removed the directory since the start.
		if err = s.makeDirs(); err == nil {
			file, err = postoffice.CreateIn(s.messages, messagePrefix)
		}
	}
	if err != nil {
		return nil, err
	}
	a := &arrival{push: push, message: file, token: strings.TrimPrefix(filepath.Base(file.Name()), messagePrefix)}
	s.active[a.token] = true
	return a, nil
}

// read reads a message from a connection into its file. fileErr is the error of the file, for
// example because the disk is full; the file is then made empty at once, and the rest of the
// message is read and dropped. err is the error of the connection.
func (s *Store) read(a *arrival, from io.Reader) (fileErr, err error) {
	to := &staging{file: a.message}
	if _, err = io.CopyN(to, from, a.push.Message); err != nil {
		return nil, err
	}
	return to.err, nil
}

// staging writes to a file until there is an error. It then empties the file, because the
// rest may come slowly, and drops the rest.
type staging struct {
	file *postoffice.File
	err  error
}

func (s *staging) Write(b []byte) (int, error) {
	if s.err == nil {
		if _, s.err = s.file.Write(b); s.err != nil {
			_ = postoffice.Truncate(s.file.FD(), 0)
		}
	}
	return len(b), nil
}

// messageMode is the mode of a message file: agents can read it.
const messageMode = 0o440

// complete gives the message file its time, group and mode when it is written. Its owner
// and mode at the other node do not count: see allowed.go. A time that is still to come
// would keep the mail from expiring.
func (s *Store) complete(a *arrival) error {
	err := a.message.Chmod(messageMode)
	if err == nil && s.root {
		err = a.message.Chown(-1, s.group)
	}
	if err == nil {
		arrivedAt := time.Unix(0, min(a.push.ModifiedAt, time.Now().UnixNano()))
		err = a.message.SetTime(postoffice.TimeOfCopy(arrivedAt))
	}
	return err
}

// release ends the work on a message. Its files are gone, or they are recorded.
func (s *Store) release(a *arrival) {
	_ = a.message.Close()
	s.mu.Lock()
	delete(s.active, a.token)
	s.mu.Unlock()
}

// discard removes the files of a message that is not taken.
func (s *Store) discard(a *arrival) {
	_ = postoffice.RemovePath(a.message.Name())
	if a.staged != "" {
		_ = postoffice.RemovePath(a.staged)
	}
}

// prepare writes the control file of a message. It returns false if the message has
// its reply already.
func (s *Store) prepare(a *arrival) bool {
	a.reply = xfer.Reply{Code: xfer.Accepted, Tag: a.push.Tag, Text: "ok"}
	chosen, err := s.choose(a)
	if err == nil && len(chosen) > 0 {
		err = s.writeControl(a, chosen)
	}
	a.err = err
	switch {
	case errors.Is(err, errPush):
		a.reply = xfer.Reply{Code: xfer.Refused, Tag: a.push.Tag, Text: err.Error()}
	case err != nil:
		a.reply = xfer.Reply{Code: xfer.Later, Tag: a.push.Tag, Text: err.Error()}
	case len(chosen) > 0:
		return true
	}
	s.discard(a)
	return false
}

// errPush says that a message cannot be taken as it is.
var errPush = errors.New("the message cannot be taken as it is")

// choose returns the recipients that are taken now: those that were not taken before
// and are allowed.
func (s *Store) choose(a *arrival) (chosen []int, err error) {
	if err := checkWords(a.control); err != nil {
		return nil, err
	}
	for i := range a.control.Recipients {
		r := &a.control.Recipients[i]
		from, err := ctlfile.ParseOrigin(r.Origin)
		if err == nil && from.Channel == "" {
			err = errors.New("its origin names no channel")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: recipient at %d: %v", errPush, r.Offset, err)
		}
		if err := mayPush(&a.from, from.Node); err != nil {
			return nil, fmt.Errorf("%w: recipient at %d: %v", errPush, r.Offset, err)
		}
		if len(from.Message()) > maxOrigin {
			return nil, fmt.Errorf("%w: recipient at %d: its origin is too long", errPush, r.Offset)
		}
		if before, taken := s.origins.taken[from.ID()]; taken {
			if err := s.stuck[before.token]; err != nil {
				return nil, fmt.Errorf("taken before, but not in the queue yet: %w", err)
			}
			continue
		}
		if why := s.options.refuses(r, &from); why != "" {
			a.reply.Refused = append(a.reply.Refused, r.Offset)
			a.reply.Text = why
			continue
		}
		a.origins = append(a.origins, from)
		chosen = append(chosen, i)
	}
	if len(a.reply.String()) >= xfer.MaxLine {
		// The sender could not read which ones are refused.
		return nil, fmt.Errorf("%w: %d recipients are refused: %s", errPush, len(a.reply.Refused), a.reply.Text)
	}
	return chosen, s.origins.reserve(a.origins)
}

// writeControl writes the control file of the chosen recipients.
func (s *Store) writeControl(a *arrival, chosen []int) error {
	info, err := a.message.Stat()
	if err != nil {
		return err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	c := s.options.contents(a.control, chosen)
	c.Name = strconv.FormatUint(inode, 10)
	if c.Body > info.Size() {
		return fmt.Errorf("%w: the body begins at %d in a message of %d bytes", errPush, c.Body, info.Size())
	}
	next := 0
	for r := range c.All() {
		a.restore(r, a.origins[next])
		next++
	}
	text, err := c.Encode()
	if err != nil {
		return fmt.Errorf("%w: %v", errPush, err)
	}
	prefix := queuedPrefix
	if a.dir != "" {
		prefix = heldPrefix
	}
	a.name, a.staged = c.Name, filepath.Join(s.controls, prefix+a.token)
	for _, name := range []string{"transport/", "queue/"} {
		path := filepath.Join(s.options.Postoffice, a.dir, name, s.below(a))
		if postoffice.Exists(postoffice.WorkingDir, path) {
			// A power cut has left the file of an earlier message with this inode.
			a.staged = ""
			return fmt.Errorf("%q exists", path)
		}
	}
	return s.writeStaged(a.staged, text)
}

// restore gives a recipient what it had before the move: the channel and the host, and if
// it was done, its outcome and the d lines that are still to be reported.
func (a *arrival) restore(r *ctlfile.EnvelopeRecipient, from ctlfile.Origin) {
	r.Channel, r.Host, r.Class = from.Channel, from.Host, from.Class
	r.Hold = boundHold(r.Hold, a.from.Name, time.Now())
	r.Done, r.Diagnostics, r.Unreported = from.Done, ctlfile.ParseUnreported(r.Unreported), ""
	if from.Held {
		a.dir = "hold/"
		if a.hold == "" {
			a.hold = r.Hold
		}
	}
	from.Channel = ""
	r.Origin = from.String()
}

func (s *Store) writeStaged(path string, text []byte) error {
	file, err := postoffice.OpenFile(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && s.root {
		err = file.Chown(-1, s.group)
	}
	if err == nil {
		err = file.Chmod(0o660)
	}
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}
