package spool

// The files of hold records: there is one for each order, in $POSTOFFICE/hold/orders. Each line
// of a file is a word and a value:
//
//	state held
//	since 2026-11-22T08:00:00Z
//	until 2026-11-22T10:00:00Z
//	by root uid 0
//	because they asked for it
//	message S860194HfBVWBh
//	released S860193HfBVWBh
//	thread smtp<TAB>example.org
//	end
//
// A message that was released stays in the record until its files are back in the queue.

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler/view"
)

const (
	ordersDir = "hold/orders"
	// newRecord is the name of a record that is being written.
	newRecord = ordersDir + "/.new"
)

// IsEmpty reports whether nothing is left in a record, so that it can be removed.
func (r *HoldRecord) IsEmpty() bool { return len(r.Messages)+len(r.Released)+len(r.Threads) == 0 }

// writeRecord writes a record into a new file, in the directory, which the caller syncs.
func (h *Holds) writeRecord(r *HoldRecord) error {
	numbers, err := h.recordNumbers()
	if err != nil {
		return err
	}
	r.Number = 1
	if len(numbers) > 0 {
		r.Number = numbers[len(numbers)-1] + 1
	}
	return h.replaceRecord(r)
}

// replaceRecord writes a record in place of the one with its number, or removes that if
// nothing is left in it. The caller syncs the directory.
func (h *Holds) replaceRecord(r *HoldRecord) error {
	if r.IsEmpty() {
		return postoffice.Remove(h.places.office, recordPath(r.Number))
	}
	text, err := r.text()
	if err != nil {
		return err
	}
	if err := postoffice.ReplaceFile(h.places.office, newRecord, recordPath(r.Number), text); err != nil {
		return fmt.Errorf("writing %s: %w", recordPath(r.Number), err)
	}
	return nil
}

func recordPath(number uint64) string { return ordersDir + "/" + strconv.FormatUint(number, 10) }

func (r *HoldRecord) text() ([]byte, error) {
	var b bytes.Buffer
	line := func(key, value string) { b.WriteString(key + " " + inOneLine(value) + "\n") }
	line("state", "held")
	line("since", r.Since.UTC().Format(time.RFC3339))
	if !r.Until.IsZero() {
		line("until", r.Until.UTC().Format(time.RFC3339))
	}
	line("by", r.By)
	line("because", r.Because)
	for _, id := range r.Messages {
		line("message", id)
	}
	for _, id := range r.Released {
		line("released", id)
	}
	for _, t := range r.Threads {
		text, err := threadLine(t)
		if err != nil {
			return nil, err
		}
		b.WriteString("thread " + text)
	}
	b.WriteString("end\n")
	return b.Bytes(), nil
}

// inOneLine makes a text fit into one line.
func inOneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
}

// readRecords reads all records, the oldest first. Together with an error, it returns what it
// could read.
func (h *Holds) readRecords() (records []HoldRecord, err error) {
	numbers, err := h.recordNumbers()
	for _, number := range numbers {
		text, e := postoffice.ReadFile(h.places.office, recordPath(number), math.MaxInt64)
		switch {
		case e == unix.ENOENT:
		case e != nil:
			err = errors.Join(err, fmt.Errorf("reading %s: %w", recordPath(number), e))
		default:
			r := parseRecord(number, string(text))
			r.WrittenAt = changedAt(h.places.office, recordPath(number))
			records = append(records, r)
		}
	}
	return records, err
}

func changedAt(office int, path string) time.Time {
	var st unix.Stat_t
	if postoffice.Stat(office, path, &st) != nil {
		return time.Time{}
	}
	return time.Unix(st.Mtim.Unix())
}

// parseRecord reads the text of a record. Lines that are cut or that it does not know are
// skipped. The end of a damaged record may be missing, so what it holds is held until it is
// released.
func parseRecord(number uint64, text string) HoldRecord {
	r := HoldRecord{Number: number}
	ended := false
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		key, value, _ := strings.Cut(line, " ")
		if !whole {
			key = ""
		}
		switch key {
		case "state":
			r.Damaged = r.Damaged || value != "held"
		case "since":
			r.Since, _ = time.Parse(time.RFC3339, value)
		case "until":
			var err error
			r.Until, err = time.Parse(time.RFC3339, value)
			r.Damaged = r.Damaged || err != nil
		case "by":
			r.By = value
		case "because":
			r.Because = value
		case "message":
			r.Messages = append(r.Messages, value)
		case "released":
			r.Released = append(r.Released, value)
		case "thread":
			t, rest, ok := parseThread(value)
			if ok = ok && rest == ""; ok {
				r.Threads = append(r.Threads, t)
			}
			r.Damaged = r.Damaged || !ok
		case "end":
			ended = true
		default:
			r.Damaged = true
		}
	}
	if r.Damaged = r.Damaged || !ended; r.Damaged {
		r.Until = time.Time{}
	}
	return r
}

// recordNumbers returns the numbers of all records, ascending.
func (h *Holds) recordNumbers() (numbers []uint64, err error) {
	names, err := postoffice.ReadNamesAt(h.places.office, ordersDir)
	if err != nil {
		return nil, fmt.Errorf("reading hold records: %w", err)
	}
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// threadLine returns the line of a thread.
func threadLine(t view.Name) (string, error) {
	channel, err := ctlfile.Quote(t.Channel)
	if err != nil {
		return "", err
	}
	host, err := ctlfile.Quote(t.Host)
	if err != nil {
		return "", err
	}
	named := ctlfile.Address{Channel: channel, Host: host}
	return named.RouteChannel() + "\t" + named.RouteHost() + "\n", nil
}

// parseThread reads the channel and the host at the beginning of a line, which are written as
// in control files.
func parseThread(line string) (t view.Name, rest string, ok bool) {
	line, _, nul := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
	channel, rest, ok := ctlfile.CutWord(line)
	host, rest, okToo := ctlfile.CutWord(rest)
	named := ctlfile.Address{Channel: channel, Host: host}
	t = view.Name{Channel: named.RouteChannel(), Host: named.RouteHost()}
	// The host that RouteHost takes from a list of hosts is not always one word.
	word, _, isWord := ctlfile.CutWord(t.Host)
	return t, rest, ok && okToo && !nul && isWord && word == t.Host
}
