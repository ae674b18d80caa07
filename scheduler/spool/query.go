package spool

// Queries: finding and showing messages in any place.

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/pattern"
	"zsched/internal/postoffice"
)

// Query is what Find looks for. A message matches if every field that is not ""
// matches. In patterns, '*' stands for any text and '?' for one byte, and ASCII
// letters match in either case.
type Query struct {
	// Places to look in, nil for all of them.
	Places []Place
	// Recipient is a pattern for the user of any recipient, done or not, or for an
	// address that the recipient had before an alias.
	Recipient string
	// LogID is a pattern for the l line. Angle brackets around it, and around
	// addresses, are ignored.
	LogID string
	// SpoolID is a spoolid, or the number or path of a control file.
	SpoolID string
}

// Find returns the messages that match, in no order. It reads directories and
// control files as it goes, with at most one control file in memory, and uses no
// worker. A message that is moved meanwhile may come twice or not at all. A
// malformed message has no recipient and is found by the other fields alone. A message that cannot be read comes as an error, after which Find
// continues. When ctx is done, its error comes last.
func (s *Spool) Find(ctx context.Context, what Query) iter.Seq2[*Stored, error] {
	return func(yield func(*Stored, error) bool) {
		places := what.Places
		if places == nil {
			places = []Place{Queue, Hold, Corrupt}
		}
		for _, p := range places {
			if !s.findIn(ctx, p, &what, yield) {
				return
			}
		}
	}
}

// findIn looks in one place. It returns false if the caller wants no more.
func (s *Spool) findIn(ctx context.Context, p Place, what *Query, yield func(*Stored, error) bool) bool {
	h, err := s.openReader(p)
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

func (w *Query) fits(m *Stored) bool {
	if m.File == nil {
		return w.Recipient == "" && w.LogID == ""
	}
	return m.File.Name != "" && // not of a trigger
		(w.LogID == "" || pattern.Wildcard(ctlfile.Unbracketed(w.LogID), ctlfile.Unbracketed(m.File.LogID))) &&
		(w.Recipient == "" || w.fitsRecipient(m.File))
}

func (w *Query) fitsRecipient(f *ctlfile.File) bool {
	wanted := ctlfile.Unbracketed(w.Recipient)
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if pattern.Wildcard(wanted, ctlfile.Unbracketed(r.User)) ||
			slices.ContainsFunc(r.Originals(), func(address string) bool { return pattern.Wildcard(wanted, ctlfile.Unbracketed(address)) }) {
			return true
		}
	}
	return false
}

// Stored is a message as it is on disk.
type Stored struct {
	Place Place
	Name  Name
	// File is nil if the control file is malformed; Reason says why. Under
	// corrupt/, Reason says why the message was moved there.
	File       *ctlfile.File
	Reason     string
	Control    int64     // bytes of the control file
	ChangedAt  time.Time // its ctime
	Size       int64     // bytes of the message file, -1 when there is none
	ModifiedAt time.Time // mtime of the message file; of the control file when there is none
	Owner      uint32    // uid that owns the message file
}

// Path returns the path of its control file below transport/; under hold/, it begins with "hold/".
func (m *Stored) Path() string {
	if m.Place == Hold {
		return underHold + m.Name.Path
	}
	return m.Name.Path
}

// SpoolID returns the message's identity in logs.
func (m *Stored) SpoolID() string { return ctlfile.SpoolID(m.Name.ID, m.ModifiedAt) }

// Show reads one message in any place. id is the path of its control file below
// transport/, its number or its spoolid; a path that begins with "hold/" is one
// below hold/transport/. It runs in the caller's goroutine and uses no worker.
func (s *Spool) Show(ctx context.Context, id string) (m *Stored, found bool, err error) {
	first, id := placeOf(id)
	what, ok := parseIdentity(id)
	if !ok || first == Hold && what.path == "" {
		return nil, false, nil
	}
	if first == Hold {
		m, err = s.show(ctx, Hold, what)
		return m, m != nil, err
	}
	for p := range placeCount {
		if m, err = s.show(ctx, p, what); m != nil || err != nil {
			return m, m != nil, err
		}
	}
	return nil, false, nil
}

func (s *Spool) show(ctx context.Context, p Place, id identity) (*Stored, error) {
	h, err := s.openReader(p)
	if err != nil {
		return nil, err
	}
	defer h.close()
	n, err := h.find(ctx, id)
	if err != nil || n.ID == 0 {
		return nil, err
	}
	return h.read(n)
}

// Sizes returns a function for the bytes of the message file beside a control file, which is
// named by its path below transport/ or hold/transport/; 0 if there is none. It reads no
// control file. The caller calls done when it has asked for the last one.
func (s *Spool) Sizes() (size func(path string) int64, done func(), err error) {
	queued, err := s.openReader(Queue)
	if err != nil {
		return nil, nil, err
	}
	held, err := s.openReader(Hold)
	if err != nil {
		queued.close()
		return nil, nil, err
	}
	size = func(path string) int64 {
		var st unix.Stat_t
		isThere := postoffice.Stat(queued.queue, path, &st) == nil || postoffice.Stat(held.queue, path, &st) == nil
		if !isThere || !postoffice.IsRegular(&st) {
			return 0
		}
		return st.Size
	}
	return size, func() {
		queued.close()
		held.close()
	}, nil
}

// errClosed says that the spool was closed before a query.
var errClosed = errors.New("the spool was closed")
