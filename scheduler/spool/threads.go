package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/syncdir"
)

// Thread names a thread that is held: mail for it waits, what is there and
// what comes. Both words are as the scheduler groups by them, in lower case.
type Thread struct{ Channel, Host string }

// threadsFile lists the held threads, below $POSTOFFICE.
const (
	threadsFile = "hold/threads"
	threadsTemp = "hold/.threads"
)

// HeldThreads reads $POSTOFFICE/hold/threads, a line for each thread that is
// held:
//
//	smtp<TAB>example.org
//
// channel and host, a tab or blanks between them, each a word by the control
// file's rule: a blank in it stands in double quotes or behind a backslash,
// and the quotes are part of the word. No word has a line end or NUL; any
// other byte stands for itself. Blanks before the channel do not matter; empty
// lines and those that begin with '#' are skipped, and not kept when the list
// is written again. No file is no thread. What can be read comes back also
// with an error, which says what could not.
func (s *Spool) HeldThreads() ([]Thread, error) {
	text, err := os.ReadFile(filepath.Join(s.options.Postoffice, threadsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the held threads: %w", err)
	}
	threads, err := parseThreads(string(text))
	if err != nil {
		err = fmt.Errorf("%s: %w", threadsFile, err)
	}
	return threads, err
}

// HoldThreads writes the list of held threads, all of it: it is there as it
// was or as it is to be, whatever happens. Lists are written in the order
// given. Answered by Recorded.
func (s *Spool) HoldThreads(op uint64, threads []Thread) {
	threads = slices.Clone(threads)
	s.edit(threadsFile, func() {
		err := s.writeThreads(threads)
		if err != nil {
			err = fmt.Errorf("writing %s: %w", threadsFile, err)
		}
		s.queue.add([]Result{Recorded{op, err}}, 0)
	})
}

// badThreads bounds the lines that an error tells of.
const badThreads = 10

// parseThreads reads a list, each thread once, in order.
func parseThreads(text string) (threads []Thread, err error) {
	var bad []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' || strings.Trim(line, " \t") == "" {
			continue
		}
		channel, rest, ok := ctlfile.CutWord(line)
		host, rest, okToo := ctlfile.CutWord(rest)
		t := thread(channel, host)
		if !ok || !okToo || rest != "" || strings.IndexByte(line, 0) >= 0 || !isWord(t.Host) {
			if len(bad) < badThreads {
				bad = append(bad, fmt.Errorf("line %d: %.200q is not a channel and a host", n, line))
			}
			continue
		}
		threads = append(threads, t)
	}
	return distinct(threads), errors.Join(bad...)
}

// isWord reports whether s is one word, as not all is that a list of hosts may
// begin with.
func isWord(s string) bool {
	word, _, ok := ctlfile.CutWord(s)
	return ok && word == s
}

// thread is that of a channel and host as control files have them.
func thread(channel, host string) Thread {
	q := ctlfile.Address{Channel: channel, Host: host}
	return Thread{q.RouteChannel(), q.RouteHost()}
}

// distinct sorts threads and keeps one of each, in place.
func distinct(threads []Thread) []Thread {
	slices.SortFunc(threads, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
	return slices.Compact(threads)
}

// printThreads is the file of a list.
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

func (s *Spool) writeThreads(threads []Thread) error {
	text, err := printThreads(threads)
	if err != nil {
		return err
	}
	if err := writeFile(s.office, threadsTemp, text, true); err != nil {
		_ = remove(s.office, threadsTemp)
		return err
	}
	if err := unix.Renameat(s.office, threadsTemp, s.office, threadsFile); err != nil {
		_ = remove(s.office, threadsTemp)
		return err
	}
	return syncdir.At(s.office, "hold")
}
