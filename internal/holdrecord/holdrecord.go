// Package holdrecord reads and writes hold records: what is held or suspended, by whom, when,
// why and until when. There is a file for each order, in $POSTOFFICE/hold/orders. Each line of
// a file is a word and a value:
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
// A message that was released stays in the record until its files are back in the queue. The
// state is "held" or "suspended"; suspended threads have a record of their own. Version 0.9
// wrote no state.
package holdrecord

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Dir is the directory of the records, below $POSTOFFICE.
const Dir = "hold/orders"

// tempPrefix begins the name of a record that is being written. The pid of the writer
// follows.
const tempPrefix = ".new-"

// Record is one record. Of two records about the same message or thread, the one with
// the higher number counts.
type Record struct {
	Number    uint64    // of the file, set by Write
	WrittenAt time.Time // mtime of the file, set by Read
	Suspended bool      // its threads are suspended, not held
	Since     time.Time // to the second
	Until     time.Time // to the second; zero: until it is released
	By, Why   string    // one line each
	Messages  []string  // spoolids
	Released  []string  // spoolids
	Threads   []string  // "channel<TAB>host" in the words of a control file, each with its LF
	// Old says that version 0.9 wrote it: its messages are held only if they lie under hold/.
	Old bool
	// Damaged: the file has no line "end", or a line that is not understood. The record may
	// have had more messages and threads, and an end.
	Damaged bool
}

// IsEmpty reports whether nothing is left in a record, so that it can be removed.
func (r *Record) IsEmpty() bool { return len(r.Messages)+len(r.Released)+len(r.Threads) == 0 }

// Write writes a record into a new file. The directory must exist, and the caller syncs
// it. office is a descriptor of $POSTOFFICE. Other processes may write records
// meanwhile.
func Write(office int, r *Record) error {
	temp, err := writeTemp(office, r)
	if err != nil {
		return err
	}
	for {
		numbers, err := Numbers(office)
		if err == nil {
			r.Number = 1
			if len(numbers) > 0 {
				r.Number = numbers[len(numbers)-1] + 1
			}
			err = postoffice.Rename(office, temp, office, path(r.Number))
		}
		switch err {
		case nil:
			return nil
		case unix.EEXIST: // another process has just used this number
		default:
			_ = postoffice.Remove(office, temp)
			return fmt.Errorf("writing %s: %w", path(r.Number), err)
		}
	}
}

// Replace writes a record in place of the one with its number, or removes that if nothing is
// left in it. The caller syncs the directory.
func Replace(office int, r *Record) error {
	if r.IsEmpty() {
		return postoffice.Remove(office, path(r.Number))
	}
	temp, err := writeTemp(office, r)
	if err == nil {
		err = postoffice.Replace(office, temp, office, path(r.Number))
	}
	if err != nil {
		_ = postoffice.Remove(office, temp)
		return fmt.Errorf("writing %s: %w", path(r.Number), err)
	}
	return nil
}

func writeTemp(office int, r *Record) (temp string, err error) {
	temp = fmt.Sprintf("%s/%s%d", Dir, tempPrefix, os.Getpid())
	if err := postoffice.WriteFile(office, temp, r.text(), true); err != nil {
		_ = postoffice.Remove(office, temp)
		return temp, fmt.Errorf("writing %s: %w", temp, err)
	}
	return temp, nil
}

// RemoveTemps removes the temporary files of processes that have died, and of this one,
// which must not be writing a record.
func RemoveTemps(office int) error {
	names, err := postoffice.ReadNamesAt(office, Dir)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("reading %s: %w", Dir, err)
	}
	err = nil
	for _, name := range names {
		digits, found := strings.CutPrefix(name, tempPrefix)
		pid, e := strconv.Atoi(digits)
		if !found || e != nil || pid <= 0 || pid != os.Getpid() && unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		if e := postoffice.Remove(office, Dir+"/"+name); e != nil {
			err = errors.Join(err, fmt.Errorf("removing %s/%s: %w", Dir, name, e))
		}
	}
	return err
}

func path(number uint64) string { return Dir + "/" + strconv.FormatUint(number, 10) }

func (r *Record) text() []byte {
	var b bytes.Buffer
	line := func(key, value string) { b.WriteString(key + " " + clean(value) + "\n") }
	switch {
	case r.Old:
	case r.Suspended:
		line("state", "suspended")
	default:
		line("state", "held")
	}
	line("since", r.Since.UTC().Format(time.RFC3339))
	if !r.Until.IsZero() {
		line("until", r.Until.UTC().Format(time.RFC3339))
	}
	line("by", r.By)
	line("because", r.Why)
	for _, id := range r.Messages {
		line("message", id)
	}
	for _, id := range r.Released {
		line("released", id)
	}
	for _, t := range r.Threads {
		b.WriteString("thread " + t)
	}
	b.WriteString("end\n")
	return b.Bytes()
}

// clean makes a text fit into one line.
func clean(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, text)
}

// Read reads all records, the oldest first. Together with an error, it returns what it
// could read.
func Read(office int) (records []Record, err error) {
	numbers, err := Numbers(office)
	for _, number := range numbers {
		text, e := postoffice.ReadFile(office, path(number), math.MaxInt64)
		switch {
		case e == unix.ENOENT:
		case e != nil:
			err = errors.Join(err, fmt.Errorf("reading %s: %w", path(number), e))
		default:
			r := Parse(number, string(text))
			r.WrittenAt = changedAt(office, path(number))
			records = append(records, r)
		}
	}
	return records, err
}

// ChangedAt is when a record was last written or removed; zero: there is none.
func ChangedAt(office int) time.Time { return changedAt(office, Dir) }

func changedAt(office int, path string) time.Time {
	var st unix.Stat_t
	if postoffice.Stat(office, path, &st) != nil {
		return time.Time{}
	}
	return time.Unix(st.Mtim.Unix())
}

// Parse reads the text of a record. Lines that are cut or that it does not know are
// skipped.
func Parse(number uint64, text string) Record {
	r := Record{Number: number, Old: !strings.HasPrefix(text, "state ")}
	ended := false
	for line := range strings.Lines(text) {
		line, whole := strings.CutSuffix(line, "\n")
		key, value, _ := strings.Cut(line, " ")
		if !whole {
			key = ""
		}
		switch key {
		case "state":
			r.Suspended = value == "suspended"
			r.Damaged = r.Damaged || value != "suspended" && value != "held"
		case "since":
			r.Since, _ = time.Parse(time.RFC3339, value)
		case "until":
			var err error
			r.Until, err = time.Parse(time.RFC3339, value)
			r.Damaged = r.Damaged || err != nil
		case "by":
			r.By = value
		case "because":
			r.Why = value
		case "message":
			r.Messages = append(r.Messages, value)
		case "released":
			r.Released = append(r.Released, value)
		case "thread":
			r.Threads = append(r.Threads, value+"\n")
		case "end":
			ended = true
		default:
			r.Damaged = true
		}
	}
	r.Damaged = r.Damaged || !ended
	return r
}

// Numbers returns the numbers of all records, ascending.
func Numbers(office int) (numbers []uint64, err error) {
	names, err := postoffice.ReadNamesAt(office, Dir)
	if err != nil && !errors.Is(err, unix.ENOENT) {
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
