package daemon

import (
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// intake is what the loop knows of control files on their way into the core.
type intake struct {
	taking map[uint64]struct{} // given to the spool, not yet answered
	// leaving holds names that were found while a message of that number was
	// being removed. Inodes are reused at once, so the name may be that of a
	// new message: it is taken when the old one has left.
	leaving   map[scheduler.MessageID]spool.Name
	finishing map[scheduler.Op]scheduler.MessageID
	kept      map[scheduler.MessageID]struct{} // with Keep: finished, not to be taken again
	// released are messages on their way back from hold/.
	released map[scheduler.MessageID]struct{}
}

func newIntake() intake {
	return intake{
		taking:    make(map[uint64]struct{}),
		leaving:   make(map[scheduler.MessageID]spool.Name),
		finishing: make(map[scheduler.Op]scheduler.MessageID),
		kept:      make(map[scheduler.MessageID]struct{}),
		released:  make(map[scheduler.MessageID]struct{}),
	}
}

// gate is where names come from: nowhere while enough are being taken, and
// nowhere at all during a stop or where operands say what to take.
func (d *Daemon) gate() <-chan []spool.Name {
	if len(d.intake.taking) >= takingLimit || d.stop.under || len(d.Operands) > 0 {
		return nil
	}
	return d.Spool.Found()
}

// take has those read of which the core does not know.
func (d *Daemon) take(names []spool.Name) {
	fresh := names[:0]
	for _, name := range names {
		id := scheduler.MessageID(name.ID)
		if _, ok := d.intake.taking[name.ID]; ok {
			continue
		}
		if _, ok := d.intake.kept[id]; ok {
			continue
		}
		switch d.core.Known(id) {
		case scheduler.Absent:
			d.intake.taking[name.ID] = struct{}{}
			fresh = append(fresh, name)
		case scheduler.Leaving:
			d.intake.leaving[id] = name
		}
	}
	if len(fresh) > 0 {
		d.Spool.Take(fresh)
	}
}

// finished is called when a Finish was answered: a name that waited for this
// message to leave is taken now.
func (d *Daemon) finished(op scheduler.Op) {
	id, ok := d.intake.finishing[op]
	if !ok {
		return
	}
	delete(d.intake.finishing, op)
	name, ok := d.intake.leaving[id]
	if ok && d.core.Known(id) != scheduler.Leaving {
		delete(d.intake.leaving, id)
		d.take([]spool.Name{name})
	}
}

// takeOperands takes the control files named on the command line.
func (d *Daemon) takeOperands() {
	if len(d.Operands) > 0 {
		d.take(append([]spool.Name(nil), d.Operands...))
	}
}

// finishOperands begins to stop when the operands are dealt with: nothing is
// taken, written or with an agent, and nothing will be within a moment.
func (d *Daemon) finishOperands() {
	if len(d.Operands) == 0 || d.stop.under {
		return
	}
	counts := d.core.Counts()
	busy := len(d.intake.taking) > 0 || d.filing > 0 || counts.Sessions > 0 ||
		counts.Agents > counts.AgentsIdle+counts.AgentsClosing
	if next, ok := d.core.Next(); busy || ok && next.Before(d.now.Add(time.Second)) {
		return
	}
	d.Log.Info().Int("messages", counts.Messages).Msg("the files named are dealt with; left in the queue")
	d.beginStop(false)
}
