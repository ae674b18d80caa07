package spool

import (
	"context"
	"time"

	"zsched/ctlfile"
)

// Stored is a message as it lies in the spool.
type Stored struct {
	Place Place
	Name  Name
	// File is nil when the control file cannot be understood; Reason says why.
	// Under corrupt/ it says why the message was put there.
	File       *ctlfile.File
	Reason     string
	Control    int64     // bytes of the control file
	ChangedAt  time.Time // its ctime
	Size       int64     // bytes of the message file, -1 when there is none
	ModifiedAt time.Time // mtime of the message file; zero when there is none
}

// SpoolID is the message's identity in logs.
func (m *Stored) SpoolID() string { return ctlfile.SpoolID(m.Name.ID, m.ModifiedAt) }

// Show reads one message wherever it lies: in the queue, held, parked or in
// quarantine. id is the path of its control file below transport/, its number
// or its spoolid. It reads at once, in the caller's time, and asks none of the
// spool's workers.
func (s *Spool) Show(ctx context.Context, id string) (m *Stored, found bool, err error) {
	what, ok := parseIdentity(id)
	if !ok {
		return nil, false, nil
	}
	for p := range placeCount {
		if m, err = s.show(ctx, p, what); m != nil || err != nil {
			return m, m != nil, err
		}
	}
	return nil, false, nil
}

func (s *Spool) show(ctx context.Context, p Place, id identity) (*Stored, error) {
	h, err := s.openShelf(p)
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
