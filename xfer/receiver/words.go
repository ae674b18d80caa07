package receiver

// Bounds on the words and on the holds of mail from another node.

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/holdrecord"
	"zsched/internal/text"
)

const (
	// maxWord is the length in bytes of the longest word in a control file that a node
	// pushes. A word that the router takes comes from a line of at most that length.
	maxWord = 16 << 10
	// maxDSN is the same for an N line: each byte of an alias is encoded in up to three.
	maxDSN = 4 * maxWord
	// maxHolder and maxReason are the lengths in bytes to which the name of who held a
	// message and the reason are cut.
	maxHolder, maxReason = 200, 1000
	// maxHold is how long a message from another node may be held from its arrival; one
	// that has no end is held until it is released.
	maxHold = 3653 * 24 * time.Hour // ten years
)

// checkWords returns an error if a control file has a word that is too long.
func checkWords(f *ctlfile.File) error {
	if len(f.LogID) > maxWord || len(f.ErrorTo) > maxWord {
		return fmt.Errorf("%w: the Message-ID or the address for errors has more than %d bytes", errPush, maxWord)
	}
	for i := range f.Senders {
		if s := &f.Senders[i]; max(len(s.Channel), len(s.Host), len(s.User)) > maxWord {
			return fmt.Errorf("%w: the sender at %d has a word of more than %d bytes", errPush, s.Offset, maxWord)
		}
	}
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if max(len(r.Host), len(r.User), len(r.Ret), len(r.EnvID)) > maxWord || len(r.DSN) > maxDSN {
			return fmt.Errorf("%w: the recipient at %d has a word of more than %d bytes", errPush, r.Offset, maxWord)
		}
		for line := range strings.Lines(r.Unreported) {
			if len(line) > maxDSN {
				return fmt.Errorf("%w: the recipient at %d has a diagnostic of more than %d bytes", errPush, r.Offset, maxDSN)
			}
		}
	}
	return nil
}

// boundHold returns the H line of a message that arrives held, as it counts here: it says
// from which node the hold came, and its end is not later than maxHold. node is "" for a
// line that says it already.
func boundHold(line, node string, now time.Time) string {
	if line == "" {
		return ""
	}
	r := holdrecord.ParseLine(line)
	if r.Since.After(now) {
		r.Since = now
	}
	if last := now.Add(maxHold); r.Until.After(last) {
		r.Until = last
	}
	r.By, r.Why = text.Cut(r.By, maxHolder), text.Cut(r.Why, maxReason)
	if node != "" {
		r.By = cmp.Or(r.By, "unknown") + " (from node " + node + ")"
	}
	return r.Line()
}
