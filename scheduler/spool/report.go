package spool

// Reporting writes the notices that messages owe, and marks their d lines.

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
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
	// with a null sender. It is called for every such message.
	AnswersNullSender() bool
}

// notices knows which notices messages owe, and has them written.
type notices struct {
	s *Spool
	// unmarked has each unmarkedLine whose notice is written.
	unmarked sync.Map
}

// noticeWriters is how many notices are written at a time. Most of the time goes
// into waiting for the disk, which notices that are written together share.
const noticeWriters = 16

// Report writes the notice that a message in the queue owes, and marks its d
// lines as reported. RetryUntil is as in Owed. The result is Reported.
func (s *Spool) Report(op uint64, path string, retryUntil time.Time) {
	s.owing.push(func() {
		answer := Reported{Op: op, Name: nameOf(path)}
		extra, missing, err := s.change(path, unix.O_RDWR, func(d *controlFile) error {
			lines := s.notices.owed(d.file, false)
			if len(lines) == 0 || s.options.Reporter == nil {
				return nil
			}
			var err error
			place, _ := placeOf(path)
			answer.Notice, err = s.notices.report(place, d, lines, retryUntil)
			return err
		})
		answer.Missing, answer.Quarantined, answer.Err = missing, len(extra) > 0, err
		s.queue.add(append(extra, answer)...)
	})
}

// report writes the notices about some d lines of a control file, one for each sender of
// the recipients. It returns the last of them.
func (n *notices) report(place Place, d *controlFile, lines []int, retryUntil time.Time) (notice string, err error) {
	for len(lines) > 0 {
		sender := senderOf(d.file, lines[0])
		var now, later []int
		for _, i := range lines {
			if senderOf(d.file, i) == sender {
				now = append(now, i)
			} else {
				later = append(later, i)
			}
		}
		if notice, err = n.reportTo(place, d, now, retryUntil); err != nil {
			return notice, err
		}
		lines = later
	}
	return notice, nil
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
// is on disk, marks them. If lines cannot be marked, the notice is written again only after a
// restart.
func (n *notices) reportTo(place Place, d *controlFile, lines []int, retryUntil time.Time) (notice string, err error) {
	o := Owed{
		Name: nameOf(d.path), File: d.file, Lines: lines, RetryUntil: retryUntil, Temp: n.s.temp,
		ModifiedAt: time.Unix(d.st.Mtim.Unix()),
	}
	fd, err := postoffice.Open(n.s.places.pairs[place].queue, d.path, unix.O_RDONLY)
	switch err {
	case nil:
		o.Message = postoffice.NewFile(fd, "queue/"+d.path)
		defer o.Message.Close()
		var st unix.Stat_t
		if err := postoffice.Fstat(fd, &st); err != nil {
			return "", fmt.Errorf("message file: %w", err)
		}
		o.Size, o.ModifiedAt = st.Size, time.Unix(st.Mtim.Unix())
	case unix.ENOENT:
	default:
		return "", fmt.Errorf("message file: %w", err)
	}
	o.Lines = slices.DeleteFunc(slices.Clone(lines), func(i int) bool {
		_, written := n.unmarked.Load(o.unmarkedLine(i))
		return written
	})
	if len(o.Lines) > 0 {
		notice, err = n.s.options.Reporter.Report(&o)
		switch {
		case err != nil && notice == "":
			return "", err
		case err != nil:
			n.rememberWritten(&o)
			return notice, fmt.Errorf("%s is written, but may not survive a crash: %w", notice, err)
		}
	}
	if len(o.Lines) < len(lines) {
		// An earlier notice, about the other lines, may not be on disk yet.
		if err := postoffice.SyncAll(n.s.places.office); err != nil {
			return notice, fmt.Errorf("making a notice durable: %w", err)
		}
	}
	for marked, i := range lines {
		if err := d.markReported(i); err != nil {
			o.Lines = lines[marked:]
			n.rememberWritten(&o)
			return notice, err
		}
		n.unmarked.Delete(o.unmarkedLine(i))
	}
	return notice, nil
}

// rememberWritten remembers lines that are still to be marked.
func (n *notices) rememberWritten(o *Owed) {
	for _, i := range o.Lines {
		n.unmarked.Store(o.unmarkedLine(i), true)
	}
}

// unmarkedLine is a d line that could not be marked. Another message may get the same number
// later, so the whole content of the line is compared.
type unmarkedLine struct {
	spoolID string
	line    ctlfile.Diagnostic
}

func (o *Owed) unmarkedLine(i int) unmarkedLine {
	line := o.File.Diagnostics[i]
	line.Tag = ctlfile.Open
	return unmarkedLine{o.SpoolID(), line}
}

// mayWorkLater reports whether an error of a Reporter comes from the system and
// may be gone later, such as a full disk.
func mayWorkLater(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) || errors.Is(err, errChanged)
}
