// Package spool works on the queue in $POSTOFFICE for the scheduler: it finds and
// loads control files, writes outcomes into them and removes messages that are
// done. It never logs and makes no decisions about mail. Everything that it
// finds out is returned as a Result.
//
//	$POSTOFFICE/              control file           message file
//	    the queue             transport/F/F/258367   queue/F/F/258367
//	    held messages         hold/transport/…       hold/queue/…
//	                          hold/orders: who holds what
//	    quarantine            corrupt/transport/…    corrupt/queue/…
//
// Found returns the names of control files. They come from hints (inotify,
// datagrams) and from the sweep. Hints may be lost; the sweep finds every file.
// The receiver passes the names that it does not know to Load. The spool
// remembers only the names that it refused and those in hold records, so ten million messages in
// the queue cost it no memory.
//
//	sweep ──┐
//	watch ──┼─► Found ─► receiver ─► Load ───────► loaders ──┐
//	notify ─┘              │                                 ├─► Results
//	                       └──► Do (actions of the core) ────┘
//
// Files answers queries and keeps the hold records, in the goroutine of the caller.
//
// The parts of a Spool: places are the open directories, in which messages are moved and
// quarantined; standing says whether the postoffice is still ours; the sweeper, the watcher and
// refusals find names; loaders read control files; notices are what senders are to be told;
// retirers remove messages; the mover sends recipients elsewhere; Holds are the hold records;
// the janitor looks for what is left over; the reserve is what ends mail on a full disk.
//
// The files are the only lasting state: the process may be killed between any
// two system calls, and the next one continues with what it reads.
//
//	step             order                                   a crash in between costs
//	load             read; require the i line                nothing
//	hash move, hold, message file, then control file; a      nothing
//	release,         control file that is read without its
//	quarantine       message file fetches it
//	clear a lock     tag, in place                           nothing: the process stays dead
//	mark             d line, fsync, tag                      nothing: a d line that names an
//	                                                         open recipient settles it
//	to the router    submission in queue/.tmp, fsync,        those recipients are sent twice
//	                 rename into router/, fsync, old tags '+'
//	reroute, move    copy of the message in queue/.tmp and   nothing: the d lines say whether
//	to a node        its control file, staged, fsync; d      the next start completes the copy
//	                 lines, fsync; the copy into the queue   or removes it
//	                 (package queue), fsync; old tags '+'
//	hold, release    the record, fsync, rename, fsync; then  nothing: the next scheduler
//	                 the order is carried out                carries it out
//	report           notice in queue/.tmp, fsync, rename     one notice may be sent twice
//	                 into router/, fsync; d lines '+'
//	finish           control file, then message file         a message file alone: after a
//	                                                         day it is moved to corrupt/
//
// Nothing is unlinked except finished messages, trigger files and our own
// temporary files. Nothing is overwritten except hold records.
package spool

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/internal/process"
	"zsched/queue"
	"zsched/scheduler"
	"zsched/scheduler/owner"
)

// Options says where the spool is and how much it may do at once. The zero
// value of every field but Postoffice is its default.
type Options struct {
	Postoffice string
	// HashLevels is how deep control files found at the top of transport/
	// are moved: 0, 1 or 2 (option -H, SCHEDULERDIRHASH).
	HashLevels int
	// NotifySocket is "UNIX:/path" or "/path"; default
	// $POSTOFFICE/.scheduler.notify.
	NotifySocket string
	// Router gets the mail of a REQUEUE. By is the name of the submitter in its trace.
	Router queue.Router
	By     string
	// MaxSize is how many bytes a user's message file may have of which copies are made
	// (postoffice.CheckSize); 0: no limit.
	MaxSize int64
	// Unwatched leaves out the watch and the notify socket: names are found by
	// the sweep alone.
	Unwatched bool
	// Users asks for the addresses of recipients (OpenRecipient.User).
	Users bool
	// Reporter writes notices; it is needed.
	Reporter Reporter
	// Node is the name of this node, for the origins of mail that is moved to
	// another node.
	Node string
	// Owner is the claim of this node to the postoffice; nil: nothing checks it.
	Owner *owner.Owner
	// Workers is how many goroutines read control files, and how many write in them; 0: one for
	// each processor, but at least 2, and 4.
	Workers int
}

// retirers is how many goroutines remove messages.
const retirers = 2

// Spool is the open spool. Its methods may be called from any goroutine; all
// but Open, LoadHolds and Close return at once.
type Spool struct {
	options  Options
	places   *places
	holds    *Holds
	standing standing
	notices  notices
	mover    mover
	janitor  janitor
	reserve  reserve

	found    chan []Name
	results  chan []Result
	watcher  watcher
	refusals *refusals
	queue    resultQueue
	sweeps   chan struct{} // capacity 1: a hint asks for a sweep, after the rest of the last one
	ordered  chan struct{} // capacity 1: Sweep was called

	loads    *workQueue[[]Name]
	finishes *workQueue[func()]
	edits    []*workQueue[func()] // by path, so that one file has one writer
	batches  markBatches
	slow     *workQueue[func()] // copies of messages, and notices
	seed     maphash.Seed

	lockHolders lockHolders

	// temp begins the names of our temporary files; no other process uses it.
	temp string

	done    chan struct{} // closed by Close
	closing sync.Once
	running sync.WaitGroup
}

// Open makes the directories corrupt/ and hold/ if they are missing,
// binds the notify socket, and begins to watch and to sweep. It only returns an
// error if the spool cannot work, for example because $POSTOFFICE/transport or
// $POSTOFFICE/queue cannot be opened, or because it is not known which copies of mail count.
func Open(o Options) (*Spool, error) {
	o.HashLevels = min(max(o.HashLevels, 0), maxDepth)
	o.Postoffice = filepath.Clean(o.Postoffice)
	o.Router.Postoffice = o.Postoffice
	s := &Spool{
		options:  o,
		found:    make(chan []Name),
		results:  make(chan []Result, 1), // the receiver sees whether there are any
		queue:    resultQueue{ready: make(chan struct{}, 1)},
		sweeps:   make(chan struct{}, 1),
		ordered:  make(chan struct{}, 1),
		loads:    newWorkQueue[[]Name](),
		finishes: newWorkQueue[func()](),
		slow:     newWorkQueue[func()](),
		batches:  markBatches{open: map[string]*markBatch{}},
		seed:     maphash.MakeSeed(),
		temp:     tempPrefix + strconv.FormatInt(time.Now().UnixNano(), 36) + "-",
		done:     make(chan struct{}),
	}
	s.refusals = &refusals{waiting: map[string]wait{}, announce: func(n Name) { s.announce([]Name{n}) }}
	if err := s.openParts(); err != nil {
		return nil, fmt.Errorf("spool %q: %w", o.Postoffice, err)
	}
	s.reserve.fill()
	s.start()
	return s, nil
}

func (s *Spool) openParts() (err error) {
	s.places = &places{hashLevels: s.options.HashLevels, warn: s.warn, found: hashDirs{was: map[dirName]*hashDir{}, now: process.SinceBoot}}
	defer func() {
		if err != nil {
			s.places.close()
		}
	}()
	if err = s.places.openAll(s.options.Postoffice); err != nil {
		return err
	}
	s.holds, s.notices, s.janitor = &Holds{places: s.places, messages: map[uint64]recordedHold{}}, notices{s: s}, janitor{s: s}
	s.reserve = reserve{s: s}
	s.mover = mover{s: s, open: make(map[uint64]*moveBatch)}
	s.standing.owner = s.options.Owner
	s.standing.add = func(r Result) { s.queue.add(r) }
	if err = s.standing.begin(s.options.Postoffice); err != nil {
		return err
	}
	if s.mover.copies, err = queue.OpenCopies(s.options.Postoffice, s.options.HashLevels); err != nil {
		return err
	}
	s.mover.copies.Claim = claim
	transport := s.places.pairs[Queue].transport
	s.lockHolders = lockHolders{transport, os.Getpid(), ctlfile.MaxPID}
	if err := s.places.control.CannotTakeOver(); err != nil {
		s.warn(fmt.Sprintf("transport is on a file system without leases (%v): control files of other users stay there unread", err))
	}
	s.awaitFormerAgents()
	return s.mover.finish()
}

// start starts the workers first, then the hints, then the sweep.
func (s *Spool) start() {
	s.spawn(s.sendResults)
	s.spawn(s.examining)
	workers := s.options.Workers
	for range cmp.Or(workers, max(2, runtime.NumCPU())) {
		s.spawn((&loader{s: s}).run)
	}
	for range retirers {
		s.spawn(func() { s.work(s.finishes) })
	}
	for range cmp.Or(workers, 4) {
		edits := newWorkQueue[func()]()
		s.edits = append(s.edits, edits)
		s.spawn(func() { s.work(edits) })
	}
	for range slowWorkers {
		s.spawn(func() { s.work(s.slow) })
	}
	if !s.options.Unwatched {
		s.startWatch()
		if socket, err := bindNotify(notifyPath(s.options.Postoffice, s.options.NotifySocket)); err != nil {
			s.warn(fmt.Sprintf("notify socket: %v; new mail is found by watching and sweeping", err))
		} else {
			s.spawn(func() { s.notified(socket) })
		}
	}
	s.spawn(s.sweeping)
	s.spawn(s.janitor.run)
	s.spawn(s.reserve.run)
}

func (s *Spool) spawn(run func()) { s.running.Go(run) }

// slowWorkers is how many notices and copies are written at a time. Most of the time goes
// into waiting for the disk, which those that are written together share.
const slowWorkers = 16

// Found returns names of control files, in batches of at most 256, from the
// sweep, the watch and the notify socket. A name may come more than once, even
// if its message is already known: the receiver decides which names are new, and
// passes those to Load before it receives again. The sweep waits for the
// receiver. The channel is never closed.
func (s *Spool) Found() <-chan []Name { return s.found }

// Results returns results in batches. The channel is never closed.
func (s *Spool) Results() <-chan []Result { return s.results }

// Do carries out an action of the core on the files of a message: Mark, Read, Report, *Finish,
// Hold, Release or Resubmit. Actions on one file are carried out one after the other. The result
// is Answered.
func (s *Spool) Do(a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Mark:
		s.mark(a)
	case scheduler.Read:
		s.reread(a)
	case scheduler.Report:
		s.report(a)
	case *scheduler.Finish:
		s.finish(*a)
	case scheduler.Hold:
		s.move(Answered{Action: a, Op: a.Op, Message: a.Message}, a.Path, Queue, Hold)
	case scheduler.Release:
		s.move(Answered{Action: a, Op: a.Op, Message: a.Message}, a.Path, Hold, Queue)
	case scheduler.Resubmit:
		s.resubmit(a)
	default:
		panic("spool: unknown action")
	}
}

// Sweep sweeps now, or when the sweep that is under way has ended.
func (s *Spool) Sweep() { wake(s.ordered) }

func (s *Spool) warn(text string) { s.queue.add(Warning{text}) }

func (s *Spool) closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Close stops everything, drops operations that have not begun, and removes the
// notify socket. It waits for copies that are under way. No results come after it.
func (s *Spool) Close() {
	s.closing.Do(func() {
		close(s.done)
		s.loads.close()
		s.finishes.close()
		s.slow.close()
		for _, edits := range s.edits {
			edits.close()
		}
		s.running.Wait()
		s.mover.copies.Close()
		s.places.close()
	})
}

// Check returns an error if nothing may be fed or written in the postoffice any more: see
// standing.check.
func (s *Spool) Check() error { return s.standing.check() }

// LoadHolds is Holds.LoadHolds.
func (s *Spool) LoadHolds() ([]HoldRecord, error) { return s.holds.LoadHolds() }

// Files returns what reads the files of the spool for queries, and its hold records.
func (s *Spool) Files() *Files { return &Files{s.holds, s.refusals, s.places} }
