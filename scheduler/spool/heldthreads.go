package spool

// The list of held threads, hold/threads, as it is read at the start. If it is damaged or
// missing, the hold records say which threads are held.

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// ErrDamagedThreads says that the list of held threads is damaged, or is missing although
// hold records name held threads.
var ErrDamagedThreads = errors.New("the list of held threads is damaged")

// endOfThreads is the last line of a list that the scheduler has written. A list without
// that line was cut short.
const endOfThreads = "# end\n"

// badThreads bounds the lines that an error names.
const badThreads = 10

// damagedSuspension is the reason of a suspension whose line is damaged.
const damagedSuspension = "its line in " + threadsFile + " is damaged"

// HeldThreads reads $POSTOFFICE/hold/threads, which has a line for each held
// thread, and one for each thread that an administrator has suspended:
//
//	smtp<TAB>example.org
//	smtp<TAB>example.com<TAB>suspended<TAB>SINCE<TAB>UNTIL<TAB>BY<TAB>WHY
//	# end
//
// SINCE and UNTIL are times as in RFC 3339, and "-" if there is none.
//
// A line has a channel and a host, with a tab or blanks between them. Each is a
// word as in a control file: a blank in it is inside double quotes or after a
// backslash, and the quotes are part of the word. No word has a line end or NUL;
// any other byte stands for itself. Blanks before the channel are ignored. Empty
// lines and lines that begin with '#' are skipped, and are lost when the list is
// written again. If there is neither a file nor a hold record about a thread, no thread is
// held.
//
// The list is damaged if a line is not of that form, if the last line has no LF or if
// there is no line "# end". Then HeldThreads returns the threads of the other lines, those
// that hold records name and those that hold/suspensions lists, and an error that wraps
// ErrDamagedThreads. A suspension whose channel and host are readable lasts until it is
// lifted, if hold/suspensions does not say when it ends.
func (s *Spool) HeldThreads() ([]Thread, []Suspension, error) {
	text, err := postoffice.ReadFile(s.office, threadsFile, math.MaxInt64)
	missing := err == unix.ENOENT
	if err != nil && !missing {
		return nil, nil, fmt.Errorf("reading the held threads: %w", err)
	}
	list, damage := string(text), errors.New("it is missing")
	if !missing {
		threads, suspended, err := parseThreadList(list)
		if damage = errors.Join(missingEnd(list), err); damage == nil {
			return threads, suspended, nil
		}
	}
	records, err := s.HoldRecords()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w; and hold records, which name held threads too: %w", threadsFile, ErrDamagedThreads, damage, err)
	}
	recorded := slices.Collect(maps.Keys(InForce(records).Threads))
	again, err := s.suspensions()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w; and %s: %w", threadsFile, ErrDamagedThreads, damage, suspensionsFile, err)
	}
	if missing && len(recorded) == 0 && len(again) == 0 {
		return nil, nil, nil
	}
	threads, suspended, _ := parseThreadList(withoutCut(list, recorded, again))
	return distinct(append(threads, recorded...)), merged(suspended, again), fmt.Errorf("%s: %w: %w", threadsFile, ErrDamagedThreads, damage)
}

// suspensions reads the second list of the suspended threads.
func (s *Spool) suspensions() ([]Suspension, error) {
	text, err := postoffice.ReadFile(s.office, suspensionsFile, math.MaxInt64)
	if err != nil && err != unix.ENOENT {
		return nil, err
	}
	_, suspended, _ := parseThreadList(string(text))
	return suspended, nil
}

// merged returns the suspensions of both lists. If both name a thread, the first list
// counts, unless its line is damaged.
func merged(first, second []Suspension) []Suspension {
	all := slices.Clone(first)
	for _, s := range second {
		i := slices.IndexFunc(all, func(other Suspension) bool { return other.Thread == s.Thread })
		if i < 0 {
			all = append(all, s)
		} else if all[i].Why == damagedSuspension {
			all[i] = s
		}
	}
	return all
}

// missingEnd returns an error if a list has been cut.
func missingEnd(list string) error {
	switch {
	case list == "":
		return errors.New("it is empty")
	case !strings.HasSuffix(list, "\n"):
		return errors.New("its last line has no end")
	case !strings.Contains("\n"+list, "\n"+endOfThreads):
		return errors.New(`it has no line "# end"`)
	}
	return nil
}

// withoutCut returns the list without its last line, if that is the beginning of the line of
// a recorded thread: it would name another thread.
func withoutCut(list string, recorded []Thread, suspended []Suspension) string {
	begin := strings.LastIndexByte(list, '\n') + 1
	for _, t := range recorded {
		line, err := printThreads([]Thread{t})
		if err == nil && strings.HasPrefix(string(line), list[begin:]) {
			return list[:begin]
		}
	}
	for _, s := range suspended {
		line, err := printSuspensions([]Suspension{s})
		if err == nil && strings.HasPrefix(string(line), list[begin:]) {
			return list[:begin]
		}
	}
	return list
}

// parseThreads reads a list of held threads.
func parseThreads(text string) ([]Thread, error) {
	threads, _, err := parseThreadList(text)
	return threads, err
}

// parseThreadList reads a list and returns each held thread once, sorted, and the
// suspended ones in the order of the list. The error names the lines that are damaged.
func parseThreadList(text string) (threads []Thread, suspended []Suspension, err error) {
	var bad []error
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, whole := strings.CutSuffix(line, "\n")
		if line == "" || line[0] == '#' || strings.Trim(line, " \t") == "" {
			continue
		}
		readable, _, nul := strings.Cut(line, "\x00")
		channel, rest, ok := ctlfile.CutWord(readable)
		host, rest, okToo := ctlfile.CutWord(rest)
		t := thread(channel, host)
		named := ok && okToo && isWord(t.Host)
		intact := named && rest == "" && !nul
		if s, found, complete := parseSuspension(t, rest, whole && !nul); named && found {
			suspended = append(suspended, s)
			intact = complete
		} else if intact {
			threads = append(threads, t)
		}
		if !intact && len(bad) < badThreads {
			bad = append(bad, fmt.Errorf("line %d: %.80q is not the line of a held or suspended thread", n, line))
		}
	}
	return distinct(threads), suspended, errors.Join(bad...)
}

// parseSuspension reads what follows the channel and the host in the line of a
// suspended thread. whole is false if the line is cut. If not all of it can be read, the
// thread is suspended nevertheless, and complete is false.
func parseSuspension(t Thread, rest string, whole bool) (s Suspension, found, complete bool) {
	fields := strings.Split(rest, "\t")
	if fields[0] != "suspended" && (whole || rest == "" || !strings.HasPrefix("suspended", rest)) {
		return s, false, false
	}
	damaged := Suspension{Thread: t, Why: damagedSuspension}
	if len(fields) != 5 {
		return damaged, true, false
	}
	s = Suspension{Thread: t, By: fields[3], Why: fields[4]}
	var err error
	if s.Since, err = time.Parse(time.RFC3339, fields[1]); err != nil && fields[1] != "-" {
		return damaged, true, false
	}
	if s.Until, err = time.Parse(time.RFC3339, fields[2]); err != nil && fields[2] != "-" {
		return damaged, true, false
	}
	return s, true, whole
}
