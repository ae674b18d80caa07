package daemontest

// A spool in memory: load, mark, read again and finish.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// Spool is a queue without directories. Its fields may be read and set while no
// loop runs, or between synctest.Wait and the next event.
type Spool struct {
	harness *Harness
	Names   chan []spool.Name // found
	Answers chan []spool.Result

	Mu        sync.Mutex
	Files     map[string]*File // by path, in the queue
	Held      map[string]*File // by path, in hold/
	Records   []spool.HoldRecord
	MaxTaking int // the most names that were being loaded at one time
	Sweeps    int
	Probes    int
	Slow      time.Duration // time that each Finish, RecordHold and EndHolds takes
	Finished  func()        // called after each Finish, before it is answered
	Sent      []string      // to the router
	// Meanwhile is what another process does to held messages after they were
	// looked up or sent elsewhere.
	Meanwhile func()

	takes      int
	taking     int
	fault      error // of every Finish, Probe and order; nil: none
	Unreadable error // of LoadHolds and HoldRecords; nil: none
	Busy       bool  // an agent of another process has locked all files
	// Bad is a message whose Finish fails with EIO, although a Probe succeeds; 0: none.
	Bad scheduler.MessageID
}

// File is a control file.
type File struct {
	Loaded spool.Loaded
	Tags   map[int64]ctlfile.Tag
}

// message is the message with its open recipients.
func (f *File) message() spool.Loaded {
	t := f.Loaded
	t.Recipients = slices.DeleteFunc(slices.Clone(t.Recipients), func(r ctlfile.OpenRecipient) bool {
		return f.Tags[r.Offset] != ctlfile.Open
	})
	return t
}

// loaded is the message with what its records say.
func (s *Spool) loaded(name spool.Name, f *File) spool.Loaded {
	t := f.message()
	t.Name, t.UnderHold = name, strings.HasPrefix(name.Path, "hold/")
	_, t.Path = s.at(name.Path)
	id := ctlfile.SpoolID(name.ID, t.ModifiedAt)
	for i := range s.Records {
		if slices.Contains(s.Records[i].Messages, id) {
			t.Hold = &s.Records[i].Hold
		}
	}
	return t
}

func newSpool(h *Harness) *Spool {
	return &Spool{
		harness: h, Names: make(chan []spool.Name), Answers: make(chan []spool.Result, 1<<16),
		Files: make(map[string]*File), Held: make(map[string]*File), Finished: func() {},
	}
}

// Put writes a control file with recipients at these hosts.
func (s *Spool) Put(id uint64, hosts ...string) spool.Name {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.file(id, hosts...)
}

func (s *Spool) file(id uint64, hosts ...string) spool.Name {
	name := spool.Name{Path: strconv.FormatUint(id, 10), ID: id}
	f := &File{Tags: make(map[int64]ctlfile.Tag)}
	f.Loaded = spool.Loaded{Name: name, Message: scheduler.Message{
		ID: scheduler.MessageID(id), MessageID: fmt.Sprintf("<m%d@here>", id), Sender: "rayan", ErrorTo: "rayan",
		ModifiedAt: time.Now(), ChangedAt: time.Now(), Size: 100,
	}}
	for i, host := range hosts {
		offset := int64(100 + 50*i)
		f.Tags[offset] = ctlfile.Open
		f.Loaded.Recipients = append(f.Loaded.Recipients, ctlfile.OpenRecipient{Offset: offset, Channel: "smtp", Host: host})
	}
	s.Files[name.Path] = f
	return name
}

// Announce writes a control file and announces its name.
func (s *Spool) Announce(id uint64, hosts ...string) {
	s.Names <- []spool.Name{s.Put(id, hosts...)}
}

func (s *Spool) Found() <-chan []spool.Name { return s.Names }

func (s *Spool) Results() <-chan []spool.Result { return s.Answers }

func (s *Spool) Probe() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Probes++
	s.Answer(spool.Probed{Err: s.fault})
}

// Fail makes writing fail from now on, or work again.
func (s *Spool) Fail(err error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.fault = err
}

// Answer sends a result to the loop.
func (s *Spool) Answer(r spool.Result) { s.Answers <- []spool.Result{r} }

func (s *Spool) Sweep() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Sweeps++
}

func (s *Spool) Load(names []spool.Name) {
	s.Mu.Lock()
	s.taking += len(names)
	s.MaxTaking = max(s.MaxTaking, s.taking)
	s.Mu.Unlock()
	go func() {
		for _, name := range names {
			s.Mu.Lock()
			var r spool.Result = spool.Refused{Name: name, Why: spool.Vanished, Tries: 1}
			switch f := s.get(name.Path); {
			case s.Busy:
				r = spool.Refused{Name: name, Why: spool.Busy, Reason: "locked", Tries: 1}
			case f != nil:
				s.takes++
				r = s.loaded(name, f)
			}
			s.taking--
			s.Mu.Unlock()
			s.Answer(r)
		}
	}()
}

// Do carries out an action. A Report writes no notice and says that it did.
func (s *Spool) Do(a scheduler.Action) {
	if a, ok := a.(*scheduler.Finish); ok {
		go s.finish(*a)
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	switch a := a.(type) {
	case scheduler.Mark:
		s.mark(a)
	case scheduler.Read:
		s.reread(a)
	case scheduler.Report:
		s.Answer(spool.Answered{Action: a, Op: a.Op, Message: a.Message, Missing: s.get(a.Path) == nil})
	case scheduler.Hold:
		s.move(spool.Answered{Action: a, Op: a.Op, Message: a.Message}, a.Path, s.Files, s.Held)
	case scheduler.Release:
		s.move(spool.Answered{Action: a, Op: a.Op, Message: a.Message}, a.Path, s.Held, s.Files)
	case scheduler.Resubmit:
		s.resubmit(a)
	}
}

func (s *Spool) mark(a scheduler.Mark) {
	f := s.get(a.Path)
	for _, m := range a.Marks {
		if f != nil && !m.LeaveTag {
			f.Tags[m.Offset] = m.Tag
		}
	}
	s.Answer(spool.Answered{Action: a, Op: a.Op, Message: a.Message, Missing: f == nil})
}

func (s *Spool) reread(a scheduler.Read) {
	f := s.get(a.Path)
	r := spool.Answered{Action: a, Op: a.Op, Message: a.Message, Missing: f == nil}
	if f != nil {
		for _, to := range f.Loaded.Recipients {
			r.Recipients = append(r.Recipients, ctlfile.State{Offset: to.Offset, Tag: f.Tags[to.Offset]})
		}
	}
	s.Answer(r)
}

func (s *Spool) finish(a scheduler.Finish) {
	time.Sleep(s.Slow)
	s.Mu.Lock()
	err := s.fault
	if a.Message == s.Bad {
		err = syscall.EIO
	}
	if err == nil {
		files, path := s.at(a.Path)
		delete(files, path)
	}
	s.Mu.Unlock()
	s.Finished()
	s.Answer(spool.Answered{Action: &a, Op: a.Op, Message: a.Message, Err: err})
}

// Left returns how many control files there are.
func (s *Spool) Left() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return len(s.Files)
}

// Takes returns how often a control file was read.
func (s *Spool) Takes() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.takes
}

// Again announces the name of an existing control file once more.
func (s *Spool) Again(id uint64) {
	select {
	case s.Names <- []spool.Name{{Path: strconv.FormatUint(id, 10), ID: id}}:
	case <-s.harness.Ended:
	}
}
