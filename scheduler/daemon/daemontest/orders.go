package daemontest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/spool"
)

// Orders on the spool in memory: a held message is in Held instead of Files.

// HeldFiles returns the number of held messages.
func (s *Spool) HeldFiles() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Held)
}

func (s *Spool) Hold(op uint64, path string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	err := s.fault
	f := s.Files[path]
	if err == nil && f != nil {
		delete(s.Files, path)
		s.Held[path] = f
	}
	s.Answer(spool.Moved{Op: op, Err: err, Missing: f == nil})
}

func (s *Spool) Release(op uint64, id string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	f := s.Held[id]
	if f == nil {
		s.Answer(spool.Released{Op: op, Missing: true})
		return
	}
	if s.fault != nil {
		s.Answer(spool.Released{Op: op, Err: s.fault})
		return
	}
	delete(s.Held, id)
	s.Files[id] = f
	s.Answer(spool.Released{Op: op, Name: f.Loaded.Name})
}

func (s *Spool) EndHeld(op uint64, path string, marks []ctlfile.Mark) {
	s.Mu.Lock()
	if f := s.Held[path]; f != nil && s.fault == nil {
		for _, m := range marks {
			f.Tags[m.Offset] = m.Tag
		}
	}
	s.Mu.Unlock()
	s.Release(op, path)
}

// Resubmit gives recipients to the router (Sent lists them), or makes a control
// file with an unused number.
func (s *Spool) Resubmit(op uint64, r spool.Resubmission) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Meanwhile != nil {
		defer s.Meanwhile()
	}
	from := s.Files
	if r.From == spool.Hold {
		from = s.Held
	}
	f := from[r.Path]
	if f == nil {
		s.Answer(spool.Resubmitted{Op: op, Missing: true})
		return
	}
	answer := spool.Resubmitted{Op: op, Err: s.fault}
	var hosts []string
	for _, to := range f.Loaded.Recipients {
		asked := r.Offsets == nil || slices.Contains(r.Offsets, to.Offset)
		if s.fault == nil && asked && f.Tags[to.Offset] == ctlfile.Open {
			f.Tags[to.Offset] = ctlfile.Delivered
			answer.Offsets = append(answer.Offsets, to.Offset)
			hosts = append(hosts, cmp.Or(r.Host, to.Host))
		}
		answer.Recipients = append(answer.Recipients, ctlfile.State{Offset: to.Offset, Tag: f.Tags[to.Offset]})
	}
	switch {
	case len(hosts) == 0:
	case r.Host == "":
		s.Sent = append(s.Sent, fmt.Sprint(f.Loaded.Name.ID, " ", hosts))
	default:
		answer.Name = s.file(f.Loaded.Name.ID+1000, hosts...)
		made := s.Files[answer.Name.Path]
		answer.SpoolID = ctlfile.SpoolID(answer.Name.ID, made.Loaded.ModifiedAt)
		if r.From == spool.Hold {
			answer.Held = true
			s.Held[answer.Name.Path] = made
			delete(s.Files, answer.Name.Path)
		}
	}
	s.Answer(answer)
}

func (s *Spool) HoldThreads(op uint64, threads []spool.Thread, suspended []spool.Suspension) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.fault == nil {
		s.Threads, s.Suspended = slices.Clone(threads), slices.Clone(suspended)
	}
	answer := spool.Recorded{Op: op, Err: s.fault}
	if s.Slow == 0 {
		s.Answer(answer)
		return
	}
	go func() {
		time.Sleep(s.Slow)
		s.Answer(answer)
	}()
}

func (s *Spool) SavePendingOrders(orders []spool.PendingOrder) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Pending = orders
	return nil
}

func (s *Spool) PendingOrders() ([]spool.PendingOrder, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.Pending, nil
}

func (s *Spool) HeldThreads() ([]spool.Thread, []spool.Suspension, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.Threads), slices.Clone(s.Suspended), s.Unreadable
}
