package daemon

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/pattern"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// What orders want of the spool in memory: a held message is one in held
// instead of files.

// heldFiles returns how many there are.
func (s *memorySpool) heldFiles() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

func (s *memorySpool) Hold(op uint64, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.fault
	f := s.files[path]
	if err == nil && f != nil {
		delete(s.files, path)
		s.held[path] = f
	}
	s.answer(spool.Moved{Op: op, Err: err, Missing: f == nil})
}

func (s *memorySpool) Release(op uint64, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.held[id]
	if f == nil {
		s.answer(spool.Released{Op: op, Missing: true})
		return
	}
	if s.fault != nil {
		s.answer(spool.Released{Op: op, Err: s.fault})
		return
	}
	delete(s.held, id)
	s.files[id] = f
	s.answer(spool.Released{Op: op, Name: f.taken.Name})
}

func (s *memorySpool) EndHeld(op uint64, path string, marks []spool.Mark) {
	s.mu.Lock()
	if f := s.held[path]; f != nil && s.fault == nil {
		for _, m := range marks {
			f.tags[m.Offset] = m.Tag
		}
	}
	s.mu.Unlock()
	s.Release(op, path)
}

// Resubmit gives recipients to the router, whose queue is sent, or makes a
// control file of a number that nobody has.
func (s *memorySpool) Resubmit(op uint64, r spool.Resubmission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.meanwhile != nil {
		defer s.meanwhile()
	}
	from := s.files
	if r.From == spool.Hold {
		from = s.held
	}
	f := from[r.Path]
	if f == nil {
		s.answer(spool.Resubmitted{Op: op, Missing: true})
		return
	}
	answer := spool.Resubmitted{Op: op, Err: s.fault}
	var hosts []string
	for _, to := range f.taken.Recipients {
		asked := r.Offsets == nil || slices.Contains(r.Offsets, to.Offset)
		if s.fault == nil && asked && f.tags[to.Offset] == ctlfile.Open {
			f.tags[to.Offset] = ctlfile.Delivered
			answer.Offsets = append(answer.Offsets, to.Offset)
			hosts = append(hosts, cmp.Or(r.Host, to.Host))
		}
		answer.Recipients = append(answer.Recipients, spool.State{Offset: to.Offset, Tag: f.tags[to.Offset]})
	}
	switch {
	case len(hosts) == 0:
	case r.Host == "":
		s.sent = append(s.sent, fmt.Sprint(f.taken.Name.ID, " ", hosts))
	default:
		answer.Name = s.file(f.taken.Name.ID+1000, hosts...)
	}
	s.answer(answer)
}

func (s *memorySpool) HoldThreads(op uint64, threads []spool.Thread) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.threads = slices.Clone(threads)
	}
	s.answer(spool.Recorded{Op: op, Err: s.fault})
}

func (s *memorySpool) HeldThreads() ([]spool.Thread, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.threads), s.fault
}

func (s *memorySpool) Find(_ context.Context, what spool.Sought) iter.Seq2[*spool.Stored, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*spool.Stored
	if what.Places == nil {
		what.Places = []spool.Place{spool.Queue, spool.Hold}
	}
	for _, place := range what.Places {
		files := s.files
		if place == spool.Hold {
			files = s.held
		}
		for _, path := range slices.Sorted(maps.Keys(files)) {
			m := files[path].stored(place)
			if what.Sender != "" && !pattern.Wildcard(what.Sender, m.File.Senders[0].User) ||
				what.LogID != "" && !pattern.Wildcard(strings.Trim(what.LogID, "<>"), strings.Trim(m.File.LogID, "<>")) ||
				what.SpoolID != "" && !isCalled(what.SpoolID, scheduler.MessageID(m.Name.ID), m.ModifiedAt) {
				continue
			}
			all = append(all, m)
		}
	}
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return func(yield func(*spool.Stored, error) bool) {
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (s *memorySpool) Show(_ context.Context, id string) (*spool.Stored, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, files := range []map[string]*memoryFile{s.files, s.held} {
		for _, f := range files {
			if n, ok := numberOf(id); ok && uint64(n) == f.taken.Name.ID && isCalled(id, n, f.taken.ModifiedAt) {
				return f.stored(spool.Place(place)), true, nil
			}
		}
	}
	return nil, false, nil
}

// stored is the file as queries read it.
func (f *memoryFile) stored(place spool.Place) *spool.Stored {
	t := f.taken
	m := &spool.Stored{
		Place: place, Name: t.Name, Control: 300, Size: t.Size, ModifiedAt: t.ModifiedAt, ChangedAt: t.ChangedAt,
		File: &ctlfile.File{
			Name: t.Name.Path, LogID: t.LogID, ErrorTo: t.ErrorTo,
			Senders: []ctlfile.Sender{{Address: ctlfile.Address{Channel: "local", Host: "-", User: t.Sender}}},
		},
	}
	for _, to := range t.Recipients {
		m.File.Recipients = append(m.File.Recipients, ctlfile.Recipient{
			Offset: to.Offset, Tag: f.tags[to.Offset],
			Address: ctlfile.Address{Channel: to.Channel, Host: to.Host, User: "u@" + to.Host},
		})
	}
	return m
}
