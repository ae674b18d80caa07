package daemon

// Held and suspended threads: the file hold/threads is read at the start, and each order to
// hold, release, suspend or lift a thread writes it. An order that cannot be recorded there
// is undone.

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// heldThreads are the threads that HOLD THREAD holds and those that SUSPEND
// suspends, as they are recorded or being recorded in POSTOFFICE/hold/threads.
type heldThreads struct {
	loop  *Loop
	spool Spool
	set   map[spool.Thread]struct{}
	// suspended may have some whose time is over. They are not written again.
	suspended map[spool.Thread]spool.Suspension
	// inDoubt says that the last write failed: the file may have its list or the one before.
	inDoubt bool
	// writing says that a change is under way, and waiting are those that begin after it.
	writing bool
	waiting []func()
}

// ask carries out a change of the lists when those that were asked for before it have ended.
// So what is recorded last is what the core has, and what cannot be recorded is undone to
// what was recorded before it.
func (h *heldThreads) ask(o operation, done func(error)) {
	if h.writing {
		h.waiting = append(h.waiting, func() { h.ask(o, done) })
		return
	}
	h.writing = true
	h.loop.files.ask(o, func(err error) {
		h.writing = false
		done(err)
		for !h.writing && len(h.waiting) > 0 {
			next := h.waiting[0]
			h.waiting = h.waiting[1:]
			next()
		}
	})
}

// written notes the result of a write, and returns its error.
func (h *heldThreads) written(r spool.Result) error {
	err := r.(spool.Recorded).Err
	h.inDoubt = err != nil
	return err
}

// How often load tries to read the list, and the time between two tries.
const (
	heldTries = 10
	heldPause = time.Second
)

// load reads the held threads, before any mail comes. If the list is damaged, the threads
// that it still names and those of the hold records are held. If the file cannot be read, for
// example because all descriptors of the system are in use, it tries again for a while
// and then returns an error: without the list, mail that an administrator held would be
// delivered, and the next order would write a list without it.
func (h *heldThreads) load() error {
	for try := 1; ; try++ {
		threads, suspended, err := h.spool.HeldThreads()
		switch {
		case err == nil:
		case errors.Is(err, spool.ErrDamagedThreads):
			h.loop.log.Error().Err(err).Int("held", len(threads)).Int("suspended", len(suspended)).
				Msg("held threads are taken from a damaged list and from the hold records")
		case try == heldTries:
			return err
		default:
			h.loop.log.Error().Err(err).Msg("trying again to read the held threads")
			time.Sleep(heldPause)
			continue
		}
		h.begin(threads, suspended)
		return nil
	}
}

// begin holds and suspends the threads of the list.
func (h *heldThreads) begin(threads []spool.Thread, suspended []spool.Suspension) {
	for _, t := range threads {
		h.set[t] = struct{}{}
		h.loop.Step(scheduler.HeldThread{Channel: t.Channel, Host: t.Host, Held: true})
	}
	for _, s := range suspended {
		if !s.Ended(h.loop.now) {
			h.suspended[s.Thread] = s
			h.loop.Step(suspension(s))
		}
	}
}

func (h *heldThreads) sorted() []spool.Thread {
	return slices.SortedFunc(maps.Keys(h.set), func(a, b spool.Thread) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
}

func suspension(s spool.Suspension) scheduler.SuspendedThread {
	return scheduler.SuspendedThread{Channel: s.Channel, Host: s.Host, Until: s.Until, By: s.By, Why: s.Why}
}

// write writes the list, without suspensions whose time is over.
func (h *heldThreads) write(op uint64) {
	maps.DeleteFunc(h.suspended, func(_ spool.Thread, s spool.Suspension) bool { return s.Ended(h.loop.now) })
	suspended := slices.SortedFunc(maps.Values(h.suspended), func(a, b spool.Suspension) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
	h.spool.HoldThreads(op, h.sorted(), suspended)
}

// rewrite writes the list without an order: another hold/ has taken the place of the one that
// had it, or the last write failed. If it fails, the end of the next sweep of the whole queue
// tries again.
func (h *heldThreads) rewrite() {
	var threads []spool.Thread
	var suspended map[spool.Thread]spool.Suspension
	h.ask(operation{
		begin: func(_ *Loop, op uint64) {
			h.write(op)
			threads, suspended = h.sorted(), maps.Clone(h.suspended)
		},
		end: func(_ *Loop, r spool.Result) error { return h.written(r) },
	}, func(err error) {
		switch {
		case err != nil:
			h.loop.log.Error().Err(err).Msg("held threads are not recorded, which is tried again; a restart would release them")
		case !slices.Equal(threads, h.sorted()) || !maps.Equal(suspended, h.suspended):
			h.rewrite() // an order was undone meanwhile
		default:
			h.loop.log.Info().Int("held", len(threads)).Int("suspended", len(suspended)).Msg("held threads are recorded again")
		}
	})
}

// changeLists carries out a change of the lists, and waits for its end.
func (d *Daemon) changeLists(ctx context.Context, o operation) error {
	return d.await(ctx, func(l *Loop, done func(error)) { l.held.ask(o, done) })
}

// SetSuspended suspends a thread: Port. What cannot be recorded is undone.
func (d *Daemon) SetSuspended(ctx context.Context, s spool.Suspension) error {
	var before spool.Suspension
	was := false
	return d.changeLists(ctx, operation{
		begin: func(l *Loop, op uint64) {
			before, was = l.held.suspended[s.Thread]
			l.held.suspended[s.Thread] = s
			l.Step(suspension(s))
			l.held.write(op)
		},
		end: func(l *Loop, r spool.Result) error {
			err := l.held.written(r)
			switch {
			case err == nil:
			case was:
				l.held.suspended[s.Thread] = before
				l.Step(suspension(before))
			default:
				delete(l.held.suspended, s.Thread)
				l.Step(scheduler.Lifted{Channel: s.Channel, Host: s.Host, By: s.By, Why: err.Error(), OrderOnly: true})
			}
			return err
		},
	})
}

// Lift lifts what SetSuspended and reply rules do to a thread: Port.
func (d *Daemon) Lift(ctx context.Context, e scheduler.Lifted) error {
	t := spool.Thread{Channel: e.Channel, Host: e.Host}
	var before spool.Suspension
	was := false
	return d.changeLists(ctx, operation{
		begin: func(l *Loop, op uint64) {
			if before, was = l.held.suspended[t]; was {
				delete(l.held.suspended, t)
			}
			l.held.write(op)
		},
		end: func(l *Loop, r spool.Result) error {
			err := l.held.written(r)
			switch {
			case err == nil:
				l.Step(e)
			case was:
				l.held.suspended[t] = before
			}
			return err
		},
	})
}

// change adds a thread or removes it.
func (h *heldThreads) change(t spool.Thread, held bool) {
	if held {
		h.set[t] = struct{}{}
	} else {
		delete(h.set, t)
	}
}

// SetHeld holds a thread or releases it: Port. What cannot be recorded is
// undone.
func (d *Daemon) SetHeld(ctx context.Context, e scheduler.HeldThread) error {
	t := spool.Thread{Channel: e.Channel, Host: e.Host}
	before := false
	return d.changeLists(ctx, operation{
		begin: func(l *Loop, op uint64) {
			before = l.IsHeld(t)
			l.held.change(t, e.Held)
			if e.Held {
				l.Step(e)
			}
			l.held.write(op)
		},
		end: func(l *Loop, r spool.Result) error {
			err := l.held.written(r)
			if err != nil {
				l.held.change(t, before)
				e.Held, e.Why = before, err.Error()
			}
			if !e.Held || err != nil {
				l.Step(e)
			}
			return err
		},
	})
}
