package scheduler

import (
	"strings"
	"time"
)

// Full disk and other faults: actions on files that have failed are tried again.

// trouble is what keeps files from being written, and since when.
type trouble struct {
	reason string
	since  date
}

// Trouble is a fault that stops the writing of control files. The zero value is none.
type Trouble struct {
	Reason string    // it names the file
	Since  time.Time // of the first of the faults
	Down   bool      // nothing can be written, and nothing is fed
	Writes int       // that have failed and will be tried again
}

// Trouble returns what keeps control files from being written now.
func (s *Scheduler) Trouble() Trouble {
	if !s.spoolDown && len(s.store.failed) == 0 {
		return Trouble{}
	}
	return Trouble{Reason: s.store.trouble.reason, Since: s.store.trouble.since.time(), Down: s.spoolDown, Writes: len(s.store.failed)}
}

// rememberTrouble keeps the reason of a failed write, the last one, and when the first failed.
func (dv *delivery) rememberTrouble(e Failed) {
	if !dv.spoolDown && len(dv.store.failed) == 0 {
		dv.store.trouble.since = dv.date
	}
	dv.store.trouble.reason = strings.TrimSpace(e.Reason)
}

// writeFailed handles an action on files that failed.
func (dv *delivery) writeFailed(e Failed) {
	p := dv.store.pending[e.Op]
	switch {
	case e.Op == 0 && e.SpoolDown:
		dv.stopFeeding(0, e)
		return
	case p == nil:
		return
	case e.Missing:
		delete(dv.store.pending, e.Op)
		if !p.stale() {
			dv.fileMissing(p.message, e.Moved)
		}
		return
	case e.SpoolDown:
		dv.stopFeeding(p.id, e)
	}
	if !dv.moveFailed(p, e) {
		dv.repeatLater(p, e)
	}
}

// stopFeeding stops feeding until a probe succeeds, and logs it once.
// The message is the one that showed it; 0: none.
func (dv *delivery) stopFeeding(m MessageID, e Failed) {
	dv.rememberTrouble(e)
	if dv.spoolDown {
		return
	}
	dv.spoolDown = true
	dv.plan(&dv.store.retry, dv.now.after(probeInterval))
	dv.do(Note{Severity: Error, Message: m, Text: "the spool cannot be written, nothing is fed until it can: " + e.Reason})
}

// repeatLater keeps an action that failed, to issue it again.
func (dv *delivery) repeatLater(p *pending, e Failed) {
	if !e.SpoolDown {
		dv.rememberTrouble(e)
		dv.do(Note{Severity: Error, Message: p.id, Text: "cannot be written, will be tried again: " + strings.TrimSpace(e.Reason)})
		if !dv.store.retry.isPlanned() {
			dv.plan(&dv.store.retry, dv.now.after(retryInterval))
		}
	}
	dv.store.failed = append(dv.store.failed, e.Op)
	dv.counts.FailedWrites = len(dv.store.failed)
}

// moveFailed takes mail that could not be held or resubmitted back into the
// queue. The action is not tried again, because an order must not be carried out long after
// its answer. moveFailed reports whether the action was one of these.
func (dv *delivery) moveFailed(p *pending, e Failed) bool {
	m, why, verb := p.message, "", Verb(0)
	switch a := p.action.(type) {
	case Hold:
		why, verb = "cannot be held, is back in the queue: ", VerbHold
	case Resubmit:
		why, verb = "cannot be resubmitted, is back in the queue: ", VerbReroute
		if a.Channel == "" {
			verb = VerbRequeue
		}
	default:
		return false
	}
	delete(dv.store.pending, e.Op)
	if p.stale() {
		return true
	}
	reason := strings.TrimSpace(e.Reason)
	if !e.SpoolDown { // else the note that the spool cannot be written stands for all
		dv.do(Note{Severity: Warning, Message: m.id, Text: why + reason})
	}
	dv.do(Undone{Message: m.id, Name: verb.Name(), Reason: reason})
	if p.recipients == nil {
		dv.undoHold(m)
		return true
	}
	dv.resubmitFailed(p)
	m.pendingWrites--
	dv.advance(m)
	return true
}

// retryWrites probes a spool that is down, or issues failed writes again.
func (s *Scheduler) retryWrites() {
	if s.spoolDown {
		s.plan(&s.store.retry, s.now.after(probeInterval))
		s.do(Probe{})
		return
	}
	s.reissueFailed()
}

// spoolBack continues after the spool was down.
func (dv *delivery) spoolBack() {
	if !dv.spoolDown {
		return
	}
	dv.spoolDown = false
	dv.do(Note{Text: "the spool can be written again"})
	dv.reissueFailed()
	for r := dv.ringOrder.Head; r != nil; r = dv.ringOrder.Next(r) {
		dv.markDirty(r)
	}
}

// reissueFailed issues the failed actions again, in order.
func (dv *delivery) reissueFailed() {
	ops := dv.store.failed
	dv.store.failed = nil
	dv.plan(&dv.store.retry, never)
	dv.counts.FailedWrites = 0
	for _, op := range ops {
		p := dv.store.pending[op]
		if p == nil {
			continue
		}
		if p.stale() {
			// Dropped meanwhile; its number may belong to another message now.
			delete(dv.store.pending, op)
			continue
		}
		dv.do(p.action)
	}
}
