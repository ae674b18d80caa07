package daemontest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// Orders on the spool in memory: a held message is in Held instead of Files, and its path
// begins with "hold/".

// HeldFiles returns the number of held messages.
func (s *Spool) HeldFiles() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Held)
}

// PutHeld writes a control file under hold/, and its record.
func (s *Spool) PutHeld(id uint64, hold view.Hold, hosts ...string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	name := s.file(id, hosts...)
	f := s.Files[name.Path]
	delete(s.Files, name.Path)
	s.Held[name.Path] = f
	s.record(spool.HoldRecord{Hold: hold, Messages: []string{ctlfile.SpoolID(id, f.Loaded.ModifiedAt)}})
}

// AnnounceHeld announces control files under hold/.
func (s *Spool) AnnounceHeld(ids ...uint64) {
	for _, id := range ids {
		s.Names <- []spool.Name{{Path: fmt.Sprint("hold/", id), ID: id}}
	}
}

// at returns the files of a place, and the path of one there.
func (s *Spool) at(path string) (files map[string]*File, inPlace string) {
	if rest, held := strings.CutPrefix(path, "hold/"); held {
		return s.Held, rest
	}
	return s.Files, path
}

func (s *Spool) get(path string) *File {
	files, path := s.at(path)
	return files[path]
}

func (s *Spool) move(answer spool.Answered, path string, from, to map[string]*File) {
	f := from[path]
	if s.fault == nil && f != nil {
		delete(from, path)
		to[path] = f
	}
	answer.Err, answer.Missing = s.fault, f == nil
	s.Answer(answer)
}

// resubmit gives recipients to the router (Sent lists them), or makes a control
// file with an unused number.
func (s *Spool) resubmit(r scheduler.Resubmit) {
	if s.Meanwhile != nil {
		defer s.Meanwhile()
	}
	f := s.get(r.Path)
	answer := spool.Answered{Action: r, Op: r.Op, Message: r.Message, Err: s.fault}
	if f == nil {
		answer.Missing, answer.Err = true, nil
		s.Answer(answer)
		return
	}
	var hosts []string
	for _, to := range f.Loaded.Recipients {
		asked := slices.Contains(r.Offsets, to.Offset)
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
		if r.Hold != nil {
			s.Held[answer.Name.Path] = made
			delete(s.Files, answer.Name.Path)
			answer.Name.Path = "hold/" + answer.Name.Path
			s.record(spool.HoldRecord{Hold: *r.Hold, Messages: []string{answer.SpoolID}})
		}
	}
	s.Answer(answer)
}

func (s *Spool) LoadHolds() ([]spool.HoldRecord, error) { return s.HoldRecords() }

func (s *Spool) HoldRecords() ([]spool.HoldRecord, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return slices.Clone(s.Records), s.Unreadable
}

func (s *Spool) RecordHold(r spool.HoldRecord) error {
	time.Sleep(s.Slow)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.fault == nil {
		s.record(r)
	}
	return s.fault
}

func (s *Spool) record(r spool.HoldRecord) {
	r.Number = uint64(len(s.Records) + 1)
	s.Records = append(s.Records, r)
}

func (s *Spool) EndHolds(end spool.HoldRecord) error {
	time.Sleep(s.Slow)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.fault != nil {
		return s.fault
	}
	for i := range s.Records {
		r := &s.Records[i]
		r.Messages = slices.DeleteFunc(slices.Clone(r.Messages), func(id string) bool { return slices.Contains(end.Messages, id) })
		r.Threads = slices.DeleteFunc(slices.Clone(r.Threads), func(t view.Name) bool { return slices.Contains(end.Threads, t) })
	}
	return nil
}

func (s *Spool) DropHolds(over spool.HoldRecord) error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for i := range s.Records[:over.Number] {
		r := &s.Records[i]
		r.Messages = slices.DeleteFunc(slices.Clone(r.Messages), func(id string) bool { return slices.Contains(over.Messages, id) })
		r.Threads = slices.DeleteFunc(slices.Clone(r.Threads), func(t view.Name) bool { return slices.Contains(over.Threads, t) })
	}
	return nil
}

// Recorded returns the threads and messages that records name: "smtp/a.example", and "7" for a
// message.
func (s *Spool) Recorded() (names []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, r := range s.Records {
		for _, t := range r.Threads {
			names = append(names, t.Channel+"/"+t.Host)
		}
		for _, id := range r.Messages {
			n, _ := ctlfile.Number(id[1:])
			names = append(names, fmt.Sprint(n))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
