package daemon

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// loadHeld reads the held threads, before any mail comes.
func (d *Daemon) loadHeld() {
	threads, err := d.Spool.HeldThreads()
	if err != nil {
		d.Log.Error().Err(err).Msg("not every held thread is known")
	}
	for _, t := range threads {
		d.held[t] = struct{}{}
		d.step(scheduler.HeldThread{Channel: t.Channel, Host: t.Host, Held: true})
	}
}

// holdThread holds a thread at once, and until it is released, also over a
// restart. If that cannot be written it is not held.
func (q queries) holdThread(ctx context.Context, name mailq.Name, dry bool) (did mailq.Outcome, err error) {
	t := spool.Thread(name)
	already := false
	err = q.d.ask(ctx, func() {
		_, already = q.d.held[t]
		did = q.d.threadOutcome(name)
	})
	if already {
		return mailq.Outcome{}, err
	}
	if err != nil || dry {
		return did, err
	}
	err = q.d.run(ctx, errand{
		begin: func(op uint64) {
			q.d.held[t] = struct{}{}
			q.d.tellHeld(t)
			q.d.Spool.HoldThreads(op, q.d.heldThreads())
		},
		end: func(r spool.Result) error {
			err := r.(spool.Recorded).Err
			if err != nil {
				delete(q.d.held, t)
				q.d.tellHeld(t)
			}
			return err
		},
	})
	return did, err
}

// liftThread ends the holding of a thread, when that is written.
func (q queries) liftThread(ctx context.Context, name mailq.Name, dry bool) (did mailq.Outcome, err error) {
	t := spool.Thread(name)
	held := false
	err = q.d.ask(ctx, func() {
		_, held = q.d.held[t]
		did = q.d.threadOutcome(name)
	})
	if !held {
		return mailq.Outcome{}, err
	}
	if err != nil || dry {
		return did, err
	}
	err = q.d.run(ctx, errand{
		begin: func(op uint64) {
			delete(q.d.held, t)
			q.d.Spool.HoldThreads(op, q.d.heldThreads())
		},
		end: func(r spool.Result) error {
			err := r.(spool.Recorded).Err
			if err != nil {
				q.d.held[t] = struct{}{}
			}
			q.d.tellHeld(t)
			return err
		},
	})
	return did, err
}

// releaseThread lifts a hold and lets go what of the thread was put aside.
func (q queries) releaseThread(ctx context.Context, name mailq.Name, o *mailq.Order) (mailq.Outcome, error) {
	did, err := q.liftThread(ctx, name, o.DryRun)
	if err != nil || did.Threads > 0 {
		return did, err
	}
	begin := func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
	return q.actOnJobs(ctx, o, begin, func(*scheduler.VertexView) bool { return true })
}

// threadOutcome is what an order about a whole thread concerns.
func (d *Daemon) threadOutcome(name mailq.Name) mailq.Outcome {
	did := mailq.Outcome{Threads: 1}
	if t, _ := d.core.Thread(name.Channel, name.Host); t != nil {
		did.Messages, did.Recipients = t.Vertices, t.Recipients
	}
	return did
}

// tellHeld tells the core whether a thread is held.
func (d *Daemon) tellHeld(t spool.Thread) {
	_, held := d.held[t]
	d.step(scheduler.HeldThread{Channel: t.Channel, Host: t.Host, Held: held})
}

func (d *Daemon) heldThreads() []spool.Thread {
	return slices.SortedFunc(maps.Keys(d.held), func(a, b spool.Thread) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Host, b.Host))
	})
}
