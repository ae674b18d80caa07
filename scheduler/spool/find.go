package spool

import (
	"context"
	"iter"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/pattern"
)

// Sought says what Find looks for. A message is found when all that is not ""
// fits. Patterns have '*' for any text and '?' for one byte, and do not mind
// the case of ASCII letters.
type Sought struct {
	// Places to look in, nil for all of them.
	Places []Place
	// Recipient is a pattern of the user of any recipient, done or not.
	Recipient string
	// Sender is a pattern of any sender's user; "<>" is the null sender.
	Sender string
	// LogID is a pattern of the l line. Angle brackets around it, and around
	// addresses, do not matter.
	LogID string
	// SpoolID is a spoolid, or the number or path of a control file.
	SpoolID string
}

// Find yields the messages that fit, in no order, reading directories and
// control files as it goes: no more than one control file is in memory at any
// time, and none of the spool's workers is asked or waited for. A message that
// is moved meanwhile may come twice or not at all. What cannot be understood
// has no recipient or sender and is found by the rest alone. What cannot be
// read comes as an error, after which Find goes on; when ctx is done, its
// error is the last.
func (s *Spool) Find(ctx context.Context, what Sought) iter.Seq2[*Stored, error] {
	return func(yield func(*Stored, error) bool) {
		places := what.Places
		if places == nil {
			places = []Place{Queue, Hold, Postman, Corrupt}
		}
		for _, p := range places {
			if !s.findIn(ctx, p, &what, yield) {
				return
			}
		}
	}
}

// findIn looks in one place. It is false when no more is wanted.
func (s *Spool) findIn(ctx context.Context, p Place, what *Sought, yield func(*Stored, error) bool) bool {
	h, err := s.openShelf(p)
	if err != nil {
		return yield(nil, err) && err != errClosed
	}
	defer h.close()
	going := true
	visit := func(n Name) bool {
		m, err := h.read(n)
		switch {
		case err != nil:
			going = yield(nil, err)
		case m != nil && what.fits(m):
			going = yield(m, nil)
		}
		return going
	}
	if what.SpoolID != "" {
		id, ok := parseIdentity(what.SpoolID)
		if !ok {
			return false
		}
		n, err := h.find(ctx, id)
		if n.ID != 0 {
			return visit(n)
		}
		return (err == nil || yield(nil, err)) && ctx.Err() == nil
	}
	err = h.walk(ctx, visit)
	return going && (err == nil || yield(nil, err)) && ctx.Err() == nil
}

func (w *Sought) fits(m *Stored) bool {
	if m.File == nil {
		return w.Recipient == "" && w.Sender == "" && w.LogID == ""
	}
	return m.File.Name != "" && // not of a trigger
		(w.LogID == "" || pattern.Wildcard(bare(w.LogID), bare(m.File.LogID))) &&
		(w.Recipient == "" || w.fitsRecipient(m.File)) &&
		(w.Sender == "" || w.fitsSender(m.File))
}

func (w *Sought) fitsRecipient(f *ctlfile.File) bool {
	wanted := bare(w.Recipient)
	for i := range f.Recipients {
		if pattern.Wildcard(wanted, bare(f.Recipients[i].User)) {
			return true
		}
	}
	return false
}

func (w *Sought) fitsSender(f *ctlfile.File) bool {
	wanted := bare(w.Sender)
	for i := range f.Senders {
		user := bare(f.Senders[i].User)
		if f.Senders[i].Channel == "error" {
			user = ""
		}
		if pattern.Wildcard(wanted, user) {
			return true
		}
	}
	return false
}

// bare takes the angle brackets off an address or identity.
func bare(s string) string {
	if inner, ok := strings.CutPrefix(s, "<"); ok {
		if inner, ok := strings.CutSuffix(inner, ">"); ok {
			return inner
		}
	}
	return s
}
