package spool

// Reporting writes the notices that messages owe, and marks their d lines.

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

// Owed is a message that owes its sender a notice.
type Owed struct {
	Name Name
	File *ctlfile.File
	// Lines are the d lines that the notice is about, by their index in
	// File.Diagnostics. They are about recipients of one sender.
	Lines []int
	// Message is the message file, open for reading until the call returns; nil
	// if there is none.
	Message    *postoffice.File
	Size       int64     // of the message file
	ModifiedAt time.Time // its mtime; of the control file if there is none
	// RetryUntil is when recipients that are delayed expire; zero: not known.
	RetryUntil time.Time
	// Temp begins the names of temporary files, so that the next scheduler finds
	// those that a crash has left.
	Temp string
}

// SpoolID is the message's identity in logs and notices.
func (o *Owed) SpoolID() string { return ctlfile.SpoolID(o.Name.ID, o.ModifiedAt) }

// Reporter writes notices.
type Reporter interface {
	// Report writes a notice durably and returns its file below $POSTOFFICE. It
	// returns "" if nobody gets a notice. An error together with a file says
	// that the notice is written but may not survive a crash.
	Report(o *Owed) (file string, err error)
	// AnswersNullSender reports whether somebody gets notices about messages
	// with a null sender. It is called for every message that is loaded.
	AnswersNullSender() bool
}

// notices knows which notices messages owe, and has them written.
type notices struct{ s *Spool }

// report writes the notice that a message in the queue owes, and marks its d
// lines as reported.
func (s *Spool) report(a scheduler.Report) {
	s.slow.push(func() {
		answer := Answered{Action: a, Op: a.Op, Message: a.Message}
		extra, missing, err := s.change(a.Path, func(d *controlFile) error {
			lines := s.notices.owed(d.file, false)
			if len(lines) == 0 {
				return nil
			}
			var err error
			answer.Notice, err = s.notices.report(a.Path, d, lines, a.RetryUntil)
			return err
		})
		answer.Missing, answer.Err = missing, err
		s.queue.add(append(extra, answer)...)
	})
}

// report writes the notices about some d lines of a control file, one for each sender of
// the recipients. It returns the last of them.
func (n *notices) report(path string, d *controlFile, lines []int, retryUntil time.Time) (notice string, err error) {
	for sender := -1; sender < len(d.file.Senders); sender++ { // -1: there is none
		its := slices.DeleteFunc(slices.Clone(lines), func(i int) bool { return senderOf(d.file, i) != sender })
		if len(its) > 0 && err == nil {
			notice, err = n.reportTo(path, d, its, retryUntil)
		}
	}
	return notice, err
}

// senderOf returns the index of the sender to whom a d line belongs; the last one for a line
// that names no known recipient.
func senderOf(f *ctlfile.File, line int) int {
	if i := f.Find(f.Diagnostics[line].Recipient); i >= 0 {
		return f.Recipients[i].Sender
	}
	return len(f.Senders) - 1
}

// reportTo writes the notice to one sender about some d lines of a control file and, when it
// is on disk, marks them. It first writes the lines as they are: if that fails, it
// writes no notice. If the disk fails between the notice and the marks, the notice is written again later.
func (n *notices) reportTo(path string, d *controlFile, lines []int, retryUntil time.Time) (notice string, err error) {
	place, path := placeOf(path)
	o := Owed{
		Name: nameOf(path), File: d.file, Lines: lines, RetryUntil: retryUntil, Temp: n.s.temp,
		ModifiedAt: time.Unix(d.st.Mtim.Unix()),
	}
	fd, err := postoffice.Open(n.s.places.pairs[place].queue, path, unix.O_RDONLY)
	switch err {
	case nil:
		o.Message = postoffice.NewFile(fd, "queue/"+path)
		defer o.Message.Close()
		var st unix.Stat_t
		if err := postoffice.Fstat(fd, &st); err != nil {
			return "", fmt.Errorf("message file: %w", err)
		}
		o.Size, o.ModifiedAt = st.Size, time.Unix(st.Mtim.Unix())
	case unix.ENOENT: // the notice is without it
		if err := n.s.places.gone(n.s.places.pairs[place].queue, path); err != errGone {
			return "", fmt.Errorf("message file: %w", err)
		}
	default:
		return "", fmt.Errorf("message file: %w", err)
	}
	if err := postoffice.ForNotices.Check(n.s.options.Postoffice); err != nil {
		return "", err
	}
	for _, i := range lines {
		if err := d.tagLine(i, ctlfile.Open); err != nil {
			return "", err
		}
	}
	if notice, err = n.s.options.Reporter.Report(&o); err != nil {
		return notice, err
	}
	for _, i := range lines {
		if err := d.tagLine(i, ctlfile.Delivered); err != nil {
			return notice, err
		}
	}
	return notice, nil
}

// mayWorkLater reports whether an error of a Reporter comes from the system and
// may be gone later, such as a full disk.
func mayWorkLater(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) || errors.Is(err, errChanged)
}
