package daemon

// Intake: how control files become messages in the core, and which files are
// refused.

import (
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// intake is what the loop knows about control files on their way into the core.
type intake struct {
	loop   *Loop
	spool  Spool
	taking map[uint64]struct{} // given to the spool, not yet answered
	// leaving holds names that were found while a message of that number was
	// being removed. Inodes are reused at once, so the name may be that of a
	// new message: it is taken when the old message has been removed.
	leaving   map[scheduler.MessageID]spool.Name
	finishing map[scheduler.Op]scheduler.MessageID

	messages, recipients int // taken so far
}

func newIntake(l *Loop, s Spool) intake {
	return intake{
		loop:      l,
		spool:     s,
		taking:    make(map[uint64]struct{}),
		leaving:   make(map[scheduler.MessageID]spool.Name),
		finishing: make(map[scheduler.Op]scheduler.MessageID),
	}
}

// take asks the spool to read the control files that the core does not know.
func (in *intake) take(names []spool.Name) {
	fresh := names[:0]
	for _, name := range names {
		id := scheduler.MessageID(name.ID)
		if _, ok := in.taking[name.ID]; ok {
			continue
		}
		switch m, known := in.loop.core.Message(id); {
		case !known:
			in.taking[name.ID] = struct{}{}
			fresh = append(fresh, name)
		case m.Leaving:
			in.leaving[id] = name
		}
	}
	if len(fresh) > 0 {
		in.spool.Load(fresh)
	}
}

// finished takes the name that waited for the removal of a message, after its
// Finish was answered.
func (in *intake) finished(op scheduler.Op) {
	id := in.finishing[op]
	delete(in.finishing, op)
	name, ok := in.leaving[id]
	if m, _ := in.loop.core.Message(id); ok && !m.Leaving {
		delete(in.leaving, id)
		in.take([]spool.Name{name})
	}
}

// arrived tells the core of a message, with what an earlier process knew of it.
func (in *intake) arrived(r spool.Loaded) {
	delete(in.taking, r.Name.ID)
	m := r.Message
	in.loop.addSaved(&m)
	m.Found = m.ChangedAt.Before(in.loop.startedAt)
	in.messages++
	in.recipients += len(m.Recipients)
	in.loop.Step(scheduler.Arrived{Message: m})
}

// refused logs why a control file did not become a message.
func (in *intake) refused(r spool.Refused) {
	delete(in.taking, r.Name.ID)
	if saved := in.loop.saved; saved != nil && !in.loop.loaded {
		saved.SetLate(scheduler.MessageID(r.Name.ID))
	}
	// A file that is refused again and again is logged at the 1st, 2nd, 4th, 8th
	// try and so on. Its quarantine is always logged.
	line := in.loop.log.Warn()
	switch {
	case r.Why == spool.Quarantined:
		line = in.loop.log.Error()
	case r.Why == spool.Vanished || r.Tries&(r.Tries-1) != 0:
		return
	}
	line.Str("file", r.Name.Path).Stringer("why", r.Why).Int("tries", r.Tries).Msg(r.Reason)
}
