package admin

// Orders: KILL, EXPIRE, RETRY, HOLD, RELEASE, REQUEUE and REROUTE of messages,
// threads and selections.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

// orders carries out orders.
type orders struct {
	*reader
	nodes    func() ([]string, error) // Options
	ownNames []string                 // Options
	// holding has room for one. It is full while a HOLD or RELEASE is
	// carried out.
	holding chan struct{}
}

// order is an order that is being carried out.
type order struct {
	mailq.Order
	nodes []string // to which mail may be moved; only for a REROUTE or REQUEUE
	did   mailq.Outcome
	// threads are those in which the order has had an effect: a thread counts once.
	threads map[mailq.Name]struct{}
}

// isMove reports whether an order moves mail to another node.
func (o *order) isMove() bool {
	return o.Verb == view.VerbReroute && o.To.Channel == ctlfile.TransferChannel
}

// actor says who gave an order, for the event log.
func (o *order) actor() string { return strings.TrimSpace(o.By.User + " " + o.By.Peer) }

// act carries out an order.
func (od *orders) act(ctx context.Context, given *mailq.Order) (mailq.Outcome, error) {
	o := &order{Order: *given, threads: make(map[mailq.Name]struct{})}
	o.To = lower(o.To)
	if o.Thread != nil {
		name := lower(*o.Thread)
		o.Thread = &name
	}
	if o.Verb == view.VerbReroute || o.Verb == view.VerbRequeue {
		if err := od.checkDestination(ctx, o); err != nil {
			return mailq.Outcome{}, err
		}
	}
	if o.Verb == view.VerbHold || o.Verb == view.VerbRelease {
		if err := od.beginHold(ctx); err != nil {
			return mailq.Outcome{}, err
		}
		defer od.endHold()
	}
	err := od.carryOut(ctx, o)
	o.did.Threads = len(o.threads)
	return o.did, err
}

// carryOut finds what an order is about.
func (od *orders) carryOut(ctx context.Context, o *order) error {
	switch {
	case o.Message != "":
		return od.orderJobs(ctx, o, od.lines(ctx, walkNamed(o.Message)))
	case o.Thread != nil && o.Verb == view.VerbHold:
		return od.holdThread(ctx, o)
	case o.Thread != nil && o.Verb == view.VerbLift:
		return od.liftThread(ctx, o)
	case o.Thread != nil:
		if o.Verb == view.VerbRelease {
			if was, err := od.releaseThread(ctx, o, *o.Thread); was || err != nil {
				return err
			}
		}
		return od.orderJobs(ctx, o, od.lines(ctx, walkThread(*o.Thread)))
	case o.Where != nil:
		if o.Verb == view.VerbRelease { // threads come first: their mail is counted before released messages join it
			if err := od.releaseThreads(ctx, o); err != nil {
				return err
			}
		}
		return od.orderJobs(ctx, o, od.selected(ctx, o.Where))
	}
	return errors.New("missing message, thread or selection")
}

// checkDestination refuses to send mail where none can go: to this node, to a node that does not
// exist, or to a thread for which no agent would be started, unless it is held.
func (od *orders) checkDestination(ctx context.Context, o *order) (err error) {
	if od.nodes != nil {
		if o.nodes, err = od.nodes(); err != nil {
			return err
		}
	}
	if o.Verb != view.VerbReroute {
		return nil
	}
	var stuck bool
	err = od.port.Ask(ctx, func(l *daemon.Loop) {
		to, params := l.Core().Explain(o.To.Channel, o.To.Host)
		stuck = len(params.Command) == 0 && (o.isMove() || to.Hold == nil)
	})
	switch {
	case err != nil:
		return err
	case o.To.Channel == "" || o.To.Host == "":
		return errors.New("missing channel and host to reroute to")
	case strings.ContainsAny(o.To.Channel+o.To.Host, "\n\x00"):
		return errors.New("a channel or host cannot contain a line end or NUL")
	case o.isMove() && od.nodes != nil && slices.Contains(od.ownNames, o.To.Host):
		return fmt.Errorf("%q is this node", o.To.Host)
	case o.isMove() && od.nodes != nil && !slices.Contains(o.nodes, o.To.Host):
		return fmt.Errorf("%q is not in the table of nodes: %s", o.To.Host, cmp.Or(strings.Join(o.nodes, ", "), "there is none (PARAMxfer-nodes)"))
	case stuck:
		return fmt.Errorf("no clause of the scheduler gives a command for %s/%s: the mail would wait there",
			mailq.Field(o.To.Channel), mailq.Field(o.To.Host))
	}
	return nil
}

// messageNumber returns the number in a spoolid, a path or a number.
func messageNumber(text string) (n uint64, ok bool) {
	return ctlfile.Number(strings.TrimPrefix(path.Base(text), "S"))
}

// inQueue returns the message of the queue that has this spoolid.
func inQueue(s *scheduler.Scheduler, spoolID string) (m view.Message, found bool) {
	n, _ := messageNumber(spoolID)
	m, found = s.Message(scheduler.MessageID(n))
	// Numbers are reused, spoolids are not.
	return m, found && ctlfile.SpoolID(n, m.ModifiedAt) == spoolID
}

// orderJobs carries out an order on job lines. It first looks through the queue and then acts.
// Otherwise it would find rerouted mail again and again.
func (od *orders) orderJobs(ctx context.Context, o *order, lines iter.Seq2[*view.JobLine, error]) error {
	if err := od.port.Ask(ctx, func(l *daemon.Loop) { o.did.Loading = !l.Status().Loaded }); err != nil {
		return err
	}
	t, err := collect(o, lines)
	if err != nil {
		return err
	}
	if !o.Verb.IsAboutMail() {
		return fmt.Errorf("%s is no order about mail", o.Verb)
	}
	hold, err := od.recordOrder(o, t)
	if err != nil {
		return err
	}
	if o.Verb == view.VerbHold || o.Verb == view.VerbRelease {
		ctx = context.WithoutCancel(ctx) // it is recorded
	}
	did, err := od.give(ctx, scheduler.Ordered{
		Verb: o.Verb, DryRun: o.DryRun, Hold: hold,
		To: scheduler.Target{Channel: o.To.Channel, Host: o.To.Host},
		By: o.actor(), Because: o.Because, Only: t.only,
	}, t)
	o.did.Add(did)
	if did.Recipients > 0 {
		maps.Copy(o.threads, t.threads)
	}
	nothing := len(o.threads) == 0
	if nothing {
		o.did.Refused = max(o.did.Refused, len(t.withAgents))
	}
	if nothing || o.Verb != view.VerbRelease {
		o.did.KeptBack = len(t.keptBack)
	}
	o.did.Refused += len(t.away)
	return err
}

// A large order is given to the core in parts, no faster than the disk can write.
const (
	maxTargets  = 200  // targets in one part
	maxVertices = 2000 // vertices of their messages in one part
	// maxWriting is how many changes to files may be unfinished. While there are
	// more, the order waits for writingPause.
	maxWriting   = 2000
	writingPause = 10 * time.Millisecond
)

// give gives the core an order in parts, and counts messages and recipients. The files of the
// messages are changed after that.
func (od *orders) give(ctx context.Context, e scheduler.Ordered, t *targets) (did mailq.Outcome, err error) {
	for list := t.list; len(list) > 0 && err == nil; {
		n := 0
		err = od.port.Ask(ctx, func(l *daemon.Loop) {
			if !e.DryRun && l.Status().Writing > maxWriting {
				return
			}
			n = countPart(l.Core(), list)
			e.Targets = t.remaining(l.Core(), list[:n])
			did.Add(l.Order(e))
		})
		if list = list[n:]; n > 0 || err != nil {
			continue
		}
		select {
		case <-time.After(writingPause):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return did, err
}

// countPart returns how many of the targets go into the next part. It does not
// divide a message, because the core looks at every vertex of each message.
func countPart(core *scheduler.Scheduler, list []scheduler.Target) int {
	vertices, last := 0, scheduler.MessageID(0)
	for n, target := range list {
		if n > 0 && target.Message == last {
			continue
		}
		last = target.Message
		m, _ := core.Message(last)
		vertices += m.Vertices
		if n > 0 && (n >= maxTargets || vertices > maxVertices) {
			return n
		}
	}
	return len(list)
}
