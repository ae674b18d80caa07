// Package owner says which scheduler, of which node, owns a postoffice and may write in it: a
// lock, the epoch in .owner, and the pid file for people.
//
// An owner reads the epoch before it writes, and an answer that the postoffice is its own holds
// for answerKept. No write is based on an older answer: the wall clock, which is asked each time,
// goes on while a process is stopped and while a machine sleeps. Who takes over waits twice as
// long after its epoch is written, because the clock may be set back once meanwhile; then the
// answers of the owner before have ended, and no process of that owner which runs begins a write.
// A virtual machine whose clock stands still may go on for the rest of answerKept, as it may
// finish a write that it had begun: so the other node is switched off first (option -P).
package owner

// The owner of a postoffice: which scheduler, of which node, may write in it. A node that
// takes over the postoffice of a dead one writes a higher epoch, and the dead one stops
// should it come back.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/process"
)

const (
	// ownerName is the file below $POSTOFFICE that says who its owner is.
	ownerName = ".owner"
	// epochSize is the length of the words at the start of the file, "epoch" and the
	// number with leading zeros.
	epochSize = len("epoch 00000000000000000000")
	// leaveTimeout is how long a running scheduler of this machine may take to exit.
	leaveTimeout = time.Minute
	// lockPoll is how often the lock is tried meanwhile.
	lockPoll = 50 * time.Millisecond
	// answerKept is how long Check repeats the answer that the postoffice is ours.
	answerKept = 10 * time.Millisecond
)

// ErrRunning says that another scheduler of this machine works in the postoffice.
var ErrRunning = errors.New("another scheduler is running")

// ErrDisowned says that another scheduler, of this node or another, has the postoffice.
// Nothing may be written there any more.
var ErrDisowned = errors.New("another scheduler has taken over the postoffice")

// Claim says who claims a postoffice, and what may be done to get it.
type Claim struct {
	Postoffice string
	Node       string // the name of this node
	// Replace asks a scheduler of this machine that works there to exit (SIGTERM), and
	// waits up to a minute for it; it is never killed. Otherwise the error is ErrRunning.
	Replace bool
	// TakeOver allows to take a postoffice that another node has not released, if
	// that node's lock is free: an administrator says that the node is dead.
	TakeOver bool
}

// Owner is a node's claim to a postoffice. It is held by a lock of the open file
// (fcntl(2), F_OFD_SETLK), which ends with the process, and by the epoch in the file,
// which only grows. The pid file .pid.scheduler is written beside it, for people and for
// ZMailer's tools.
type Owner struct {
	Record
	// Before is the owner before this one; epoch 0: there was none.
	Before Record
	// Unwritten is why the pid file could not be written at first, or nil. The file is written later.
	Unwritten error

	pidFile  string
	pidGuard sync.Mutex // released, and who writes the pid file
	released bool
	file     *postoffice.File
	lost     atomic.Bool
	// askedAt is when Check has begun to read the answer that it repeats, in nanoseconds of the
	// wall clock.
	askedAt atomic.Int64
}

// Acquire takes a postoffice: its lock, and the next epoch. It waits for another
// scheduler of this machine to exit (Replace), and no longer than ctx. A postoffice that has had no owner yet needs room for the 512 bytes
// of its file.
func (c *Claim) Acquire(ctx context.Context) (*Owner, error) {
	path := filepath.Join(c.Postoffice, ownerName)
	file, err := postoffice.OpenFile(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("claiming %q: %w", path, err)
	}
	o := &Owner{file: file, pidFile: filepath.Join(c.Postoffice, pidName)}
	if err := c.take(ctx, o); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("claiming %q: %w", path, err)
	}
	if o.Unwritten = process.WritePID(o.pidFile); o.Unwritten != nil {
		go func() {
			for !o.writePID() {
				time.Sleep(pidInterval)
			}
		}()
	}
	return o, nil
}

// pidInterval is how often the pid file is tried again.
const pidInterval = 5 * time.Second

// writePID writes the pid file, unless the owner has released the postoffice. It reports whether
// there is no more to do.
func (o *Owner) writePID() (done bool) {
	o.pidGuard.Lock()
	defer o.pidGuard.Unlock()
	return o.released || process.WritePID(o.pidFile) == nil
}

// take locks the open file and writes the next epoch into it.
func (c *Claim) take(ctx context.Context, o *Owner) (err error) {
	free, err := c.awaitExit(ctx, o)
	if err != nil {
		return err
	}
	if o.Before, err = o.read(); err != nil {
		return err
	}
	host, _ := os.Hostname()
	o.Record = Record{Held: true, Node: c.Node, Host: host, Machine: machine(), PID: os.Getpid(), Since: time.Now()}
	if err := c.allowed(o, free); err != nil {
		return err
	}
	o.Epoch = o.Before.Epoch + 1
	if err := o.write(); err != nil {
		return err
	}
	time.Sleep(2 * answerKept) // see the package comment
	return nil
}

// awaitExit waits until no other scheduler of this machine works in the postoffice: one of
// ours has the lock, and ZMailer's is named in the pid file. One that is already running is
// told to exit if c.Replace says so. free is false if another machine has the lock.
func (c *Claim) awaitExit(ctx context.Context, o *Owner) (free bool, err error) {
	deadline := time.Now().Add(leaveTimeout)
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for signalled := 0; ; {
		free = o.lock()
		var holder int
		if free {
			if holder = zmailerRuns(o.pidFile); holder == 0 {
				return true, nil
			}
		} else {
			record, err := o.read()
			if err != nil || record.Epoch > 0 && record.Machine != machine() {
				return false, err
			}
			holder = record.running()
		}
		if holder > 0 && !c.Replace {
			return false, fmt.Errorf("process %d: %w", holder, ErrRunning)
		}
		if holder > 0 && holder != signalled && holder != os.Getpid() {
			if err := unix.Kill(holder, unix.SIGTERM); err != nil && err != unix.ESRCH {
				return false, fmt.Errorf("asking process %d to exit: %w", holder, err)
			}
			signalled = holder
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("process %d holds it and does not exit", holder)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false, fmt.Errorf("waiting for process %d to exit: %w", holder, context.Cause(ctx))
		}
	}
}

// allowed returns nil if the postoffice may be taken from its owner.
func (c *Claim) allowed(o *Owner, free bool) error {
	before := &o.Before
	foreign := before.Held && before.Node != c.Node && before.Machine != o.Machine
	switch {
	case !free:
		return fmt.Errorf("node %s owns it and holds its lock (%s): stop that node first", before.Node, before)
	case foreign && !c.TakeOver:
		return fmt.Errorf("node %s owns it and has not released it (%s): if that node is dead, take it over with option -P", before.Node, before)
	}
	return nil
}

// lock takes the lock that a scheduler has while it owns the spool.
func (o *Owner) lock() (free bool) {
	_, free = postoffice.LockRange(o.file.FD(), 0, ownerSize)
	return free
}

func (o *Owner) read() (Record, error) {
	buf := make([]byte, ownerSize)
	n, err := postoffice.Pread(o.file.FD(), buf, 0)
	if err != nil {
		return Record{}, err
	}
	return parseOwner(string(buf[:n]))
}

func (o *Owner) write() error {
	text, err := o.encode()
	if err != nil {
		return err
	}
	n, err := postoffice.Pwrite(o.file.FD(), text, 0)
	if err == nil && n < len(text) {
		err = unix.ENOSPC
	}
	if err == nil {
		err = o.file.Sync()
	}
	return err
}

// Check returns an error that wraps ErrDisowned if another node has taken the
// postoffice over. It is called before each write, and reads the file at most once in answerKept;
// on a network file system the answer is as old as its cache. Check and write are not one step:
// a write that began before the takeover may end after it.
func (o *Owner) Check() error {
	if o == nil {
		return nil
	}
	if o.lost.Load() {
		return ErrDisowned
	}
	askedAt := time.Now().UnixNano()
	if age := askedAt - o.askedAt.Load(); age >= 0 && age < int64(answerKept) {
		return nil
	}
	var buf [epochSize]byte
	n, err := postoffice.Pread(o.file.FD(), buf[:], 0)
	if err != nil || n < epochSize {
		return nil // the write itself says what is wrong with the disk
	}
	epoch, err := strconv.ParseUint(string(buf[len("epoch "):]), 10, 64)
	if err != nil || epoch <= o.Epoch {
		o.askedAt.Store(askedAt)
		return nil
	}
	now, _ := o.read()
	return o.disowned(&now)
}

func (o *Owner) disowned(by *Record) error {
	o.lost.Store(true)
	return fmt.Errorf("%w: this is epoch %d, and the owner is %s", ErrDisowned, o.Epoch, by)
}

// CheckName returns an error that wraps ErrDisowned if the file at its name now names another
// process that has the postoffice, whatever its epoch: if the file was removed, the next
// scheduler began another one with the first epoch.
func (o *Owner) CheckName() error {
	if o == nil {
		return nil
	}
	text, err := postoffice.ReadFile(postoffice.WorkingDir, o.file.Name(), ownerSize)
	if err != nil {
		return nil // it was removed: that alone does no harm
	}
	now, err := parseOwner(string(text))
	if err != nil || !now.Held || now.Machine == o.Machine && (now.PID == o.PID || !process.Exists(now.PID)) {
		return nil
	}
	return o.disowned(&now)
}

// Release says that the owner has exited, unless another node has taken the
// postoffice over, and gives up the lock.
func (o *Owner) Release() {
	if o == nil {
		return
	}
	o.askedAt.Store(0)
	if o.Check() == nil {
		o.Held = false
		_ = o.write()
	}
	o.pidGuard.Lock()
	defer o.pidGuard.Unlock()
	o.released = true
	removePid(o.pidFile)
	_ = o.file.Close()
}
