package spool

// Held messages, and how the list of held threads is written.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Hold moves a message from the queue to hold/. Only Release brings it back. The
// result is Moved.
func (s *Spool) Hold(op uint64, path string) { s.Move(op, path, Queue, Hold) }

// Release moves a held message back to the queue, message file first. id is its
// path below hold/transport, its number or its spoolid. The result is Released.
func (s *Spool) Release(op uint64, id string) {
	what, ok := parseIdentity(id)
	switch {
	case !ok:
		s.queue.add([]Result{Released{Op: op, Missing: true}}, 0)
	case what.path != "":
		s.releaseHeld(op, Name{what.path, what.number})
	default:
		s.bulk.push(func() {
			n, err := s.locate(context.Background(), Hold, what)
			if err != nil || n.ID == 0 {
				s.queue.add([]Result{Released{Op: op, Err: err, Missing: err == nil}}, 0)
				return
			}
			s.releaseHeld(op, n)
		})
	}
}

// EndHeld writes outcomes into the control file of a held message, as Mark does,
// and then releases it, so that it is never in the queue without them. A recipient
// that is done according to its d line stays so: a crash may have brought the file back
// without the tag. path is relative to hold/transport. The result is Released.
func (s *Spool) EndHeld(op uint64, path string, marks []ctlfile.Mark) {
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	s.edit(path, func() {
		err := s.changeIn(Hold, path, unix.O_RDWR, func(d *controlFile) error {
			locks := s.locksOf(d, false)
			if err := d.settle(locks.held); err != nil {
				return err
			}
			return d.mark(marks)
		})
		switch {
		case errors.Is(err, errGone):
			s.queue.add([]Result{Released{Op: op, Missing: true}}, 0)
		case err != nil:
			s.queue.add([]Result{Released{Op: op, Err: fmt.Errorf("held control file %q: %w", path, err)}}, 0)
		default:
			s.queue.add([]Result{s.released(op, Name{path, id})}, 0)
		}
	})
}

func (s *Spool) releaseHeld(op uint64, n Name) {
	s.edit(n.Path, func() { s.queue.add([]Result{s.released(op, n)}, 0) })
}

// released moves a message back. It runs in edit, so no other work on the file is
// done meanwhile.
func (s *Spool) released(op uint64, n Name) Released {
	answer := Released{Op: op}
	missing, err := s.moveMessage(n.Path, Hold, Queue)
	switch {
	case err != nil:
		answer.Err = fmt.Errorf("releasing %q: %w", n.Path, err)
	case missing:
		answer.Missing = true
	default:
		answer.Name = n
	}
	return answer
}

// Suspension is a thread that an administrator has suspended: its mail waits, and
// expires as usual.
type Suspension struct {
	Thread
	Since   time.Time // to the second
	Until   time.Time // to the second; zero: until it is lifted
	By, Why string    // one line each
}

// Ended reports whether the time of the suspension is over.
func (s *Suspension) Ended(now time.Time) bool { return !s.Until.IsZero() && !s.Until.After(now) }

// Thread names a held thread, whose present and future mail waits. Both words are
// in lower case, because the scheduler groups by them.
type Thread struct{ Channel, Host string }

// threadsFile lists the held and the suspended threads, below $POSTOFFICE.
// suspensionsFile lists the suspended ones a second time, as the hold records do for those
// that are held. It is read only if the other is damaged.
const (
	threadsFile     = "hold/threads"
	suspensionsFile = "hold/suspensions"
)

// HoldThreads writes the whole list of held and suspended threads: a crash leaves the old list
// or the new one. Lists are written in the order of the calls. The result is
// Recorded.
func (s *Spool) HoldThreads(op uint64, threads []Thread, suspended []Suspension) {
	threads, suspended = slices.Clone(threads), slices.Clone(suspended)
	s.edit(threadsFile, func() {
		err := s.writeThreads(threads, suspended)
		if err != nil {
			err = fmt.Errorf("writing %s: %w", threadsFile, err)
		}
		s.queue.add([]Result{Recorded{op, err}}, 0)
	})
}

// line returns the line of a suspended thread without its channel and host.
func (s *Suspension) line() string {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	clean := func(text string) string {
		return strings.Map(func(c rune) rune {
			if c < ' ' {
				return ' '
			}
			return c
		}, text)
	}
	return strings.Join([]string{"suspended", moment(s.Since), moment(s.Until), clean(s.By), clean(s.Why)}, "\t") + "\n"
}

// isWord reports whether s is one word. The host that thread takes from a list of
// hosts is not always one.
func isWord(s string) bool {
	word, _, ok := ctlfile.CutWord(s)
	return ok && word == s
}

// thread returns the thread of a channel and a host that are written as in
// control files.
func thread(channel, host string) Thread {
	q := ctlfile.Address{Channel: channel, Host: host}
	return Thread{q.RouteChannel(), q.RouteHost()}
}

// distinct sorts threads and removes duplicates, in place.
func distinct(threads []Thread) []Thread {
	slices.SortFunc(threads, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
	return slices.Compact(threads)
}

// printThreads returns the text of a list.
func printThreads(threads []Thread) ([]byte, error) {
	list := make([]Thread, len(threads))
	for i, t := range threads {
		channel, err := ctlfile.Quote(t.Channel)
		if err != nil {
			return nil, err
		}
		host, err := ctlfile.Quote(t.Host)
		if err != nil {
			return nil, err
		}
		list[i] = thread(channel, host)
	}
	var b bytes.Buffer
	for _, t := range distinct(list) {
		if t.Channel[0] == '#' {
			b.WriteByte(' ')
		}
		b.WriteString(t.Channel + "\t" + t.Host + "\n")
	}
	return b.Bytes(), nil
}

func (s *Spool) writeThreads(threads []Thread, suspended []Suspension) error {
	text, err := printThreads(threads)
	if err != nil {
		return err
	}
	lines, err := printSuspensions(suspended)
	if err != nil {
		return err
	}
	if _, err := s.obtainPair(Hold); err != nil {
		return err
	}
	if err := s.writeSuspensions(lines); err != nil {
		return err
	}
	if err := s.replaceList(threadsFile, slices.Concat(text, lines, []byte(endOfThreads))); err != nil {
		return err
	}
	return postoffice.SyncDirAt(s.office, "hold")
}

// printSuspensions returns the lines of suspended threads.
func printSuspensions(suspended []Suspension) (lines []byte, err error) {
	for i := range suspended {
		name, err := printThreads([]Thread{suspended[i].Thread})
		if err != nil {
			return nil, err
		}
		lines = append(append(lines, bytes.TrimSuffix(name, []byte("\n"))...), "\t"+suspended[i].line()...)
	}
	return lines, nil
}

// writeSuspensions writes the second list of the suspended threads. Without any, there is no
// such file.
func (s *Spool) writeSuspensions(lines []byte) error {
	if len(lines) == 0 {
		return postoffice.Remove(s.office, suspensionsFile)
	}
	return s.replaceList(suspensionsFile, append(slices.Clone(lines), endOfThreads...))
}

// replaceList replaces a list in hold/ by a new one, which is on disk before it gets its
// name.
func (s *Spool) replaceList(path string, text []byte) error {
	temp := strings.Replace(path, "/", "/.", 1)
	err := postoffice.WriteFile(s.office, temp, text, true)
	if err == nil {
		err = postoffice.Replace(s.office, temp, s.office, path)
	}
	if err != nil {
		_ = postoffice.Remove(s.office, temp)
	}
	return err
}
