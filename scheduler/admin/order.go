package admin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

// Bounds of an order that concerns much mail.
const (
	orderSlice  = 200                   // targets given at once,
	orderWeight = 2000                  // and vertices of their messages
	filingMost  = 2000                  // changes of files under way, beyond which it waits
	filingPause = 10 * time.Millisecond // for so long
)

// verbs are those that the core knows.
var verbs = map[mailq.Verb]scheduler.Verb{
	mailq.Kill: scheduler.VerbKill, mailq.Expire: scheduler.VerbExpire, mailq.Retry: scheduler.VerbRetry,
	mailq.Hold: scheduler.VerbHold, mailq.Requeue: scheduler.VerbRequeue, mailq.Reroute: scheduler.VerbReroute,
}

// Act carries an order out. What it did before an error is in the outcome.
func (q *Queue) Act(ctx context.Context, o mailq.Order) (mailq.Outcome, error) {
	o.To.Channel, o.To.Host = strings.ToLower(o.To.Channel), strings.ToLower(o.To.Host)
	if o.Thread != nil {
		o.Thread = &mailq.Name{Channel: strings.ToLower(o.Thread.Channel), Host: strings.ToLower(o.Thread.Host)}
	}
	if o.Verb == mailq.Reroute && (o.To.Channel == "" || o.To.Host == "") {
		return mailq.Outcome{}, errors.New("where to is not said")
	}
	if strings.ContainsAny(o.To.Channel+o.To.Host, "\n\x00") {
		return mailq.Outcome{}, errors.New("a line end or NUL is in no channel or host")
	}
	switch {
	case o.Message != "":
		return q.actOnMessage(ctx, &o)
	case o.Thread != nil:
		return q.actOnThread(ctx, &o)
	case o.Where != nil:
		return q.actOnSelection(ctx, &o)
	}
	return mailq.Outcome{}, errors.New("what it is about is not said")
}

func (q *Queue) actOnMessage(ctx context.Context, o *mailq.Order) (mailq.Outcome, error) {
	id, found, err := q.inQueue(ctx, o.Message)
	if err != nil {
		return mailq.Outcome{}, err
	}
	if !found {
		return q.actOnHeld(ctx, o, o.Message)
	}
	begin := func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkMessage(id) }
	return q.actOnJobs(ctx, o, begin, func(*scheduler.VertexView) bool { return true })
}

func (q *Queue) actOnThread(ctx context.Context, o *mailq.Order) (mailq.Outcome, error) {
	switch o.Verb {
	case mailq.Hold:
		return q.holdThread(ctx, *o.Thread, o.DryRun)
	case mailq.Release:
		return q.releaseThread(ctx, *o.Thread, o)
	}
	name := *o.Thread
	begin := func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
	return q.actOnJobs(ctx, o, begin, func(*scheduler.VertexView) bool { return true })
}

// actOnSelection looks through the queue first and acts then: what is sent
// elsewhere and comes back would be met again and again.
func (q *Queue) actOnSelection(ctx context.Context, o *mailq.Order) (mailq.Outcome, error) {
	begin := walkVertices
	if where := o.Where; isName(where.Channel) && isName(where.Host) {
		begin = func(s *scheduler.Scheduler) *scheduler.Walk {
			return s.WalkThread(strings.ToLower(where.Channel), strings.ToLower(where.Host))
		}
	}
	now := time.Now()
	did, err := q.actOnJobs(ctx, o, begin, func(v *scheduler.VertexView) bool { return o.Where.Matches(jobOf(v), now) })
	if err != nil || o.Verb != mailq.Release {
		return did, err
	}
	return q.releaseHeld(ctx, o, did)
}

// isName tells a name from a pattern, and from nothing.
func isName(s string) bool { return s != "" && !strings.ContainsAny(s, "*?") }

// inQueue finds a message of the queue by spoolid, number or path.
func (q *Queue) inQueue(ctx context.Context, text string) (id scheduler.MessageID, found bool, err error) {
	id, ok := numberOf(text)
	if !ok {
		return 0, false, nil
	}
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		m := l.Core().Message(id)
		found = m != nil && isCalled(text, id, m.ModifiedAt)
	})
	return id, found, err
}

// actOnJobs collects the jobs of a walk that are wanted and has the order
// carried out on them.
func (q *Queue) actOnJobs(ctx context.Context, o *mailq.Order, begin func(*scheduler.Scheduler) *scheduler.Walk,
	wanted func(*scheduler.VertexView) bool,
) (mailq.Outcome, error) {
	// What of a message goes to one place goes as one.
	targets := newTargets(o.Verb == mailq.Hold || o.Message != "" && o.Verb != mailq.Release)
	for item, err := range daemon.Walk(ctx, q.port, begin) {
		if err != nil {
			return mailq.Outcome{}, err
		}
		v := item.Vertex
		// In the queue a release lets go what was put aside.
		if v == nil || o.Verb == mailq.Release && v.State != scheduler.StatePoisoned {
			continue
		}
		if wanted(v) {
			targets.add(v)
		}
	}
	event := scheduler.Ordered{
		Verb: verbs[o.Verb], DryRun: o.DryRun,
		To: scheduler.Target{Channel: o.To.Channel, Host: o.To.Host},
	}
	if o.Verb == mailq.Release {
		event.Verb = scheduler.VerbRetry
	}
	return q.order(ctx, event, targets)
}

// targets are the jobs that an order is about.
type targets struct {
	whole   bool // messages count, not jobs
	list    []scheduler.Target
	met     map[scheduler.MessageID]int // how many messages were met before
	mixed   bool                        // those of a message do not all stand together
	threads map[mailq.Name]struct{}
	last    scheduler.Target
}

func newTargets(whole bool) *targets {
	return &targets{whole: whole, met: make(map[scheduler.MessageID]int), threads: make(map[mailq.Name]struct{})}
}

func (t *targets) add(v *scheduler.VertexView) {
	target := scheduler.Target{Message: v.Message, Channel: v.Channel, Host: v.Host}
	if target == t.last { // another part of it
		return
	}
	t.threads[mailq.Name{Channel: v.Channel, Host: v.Host}] = struct{}{}
	_, again := t.met[v.Message]
	if !again {
		t.met[v.Message] = len(t.met)
	} else if t.last.Message != v.Message {
		t.mixed = true
	}
	t.last = target
	switch {
	case !t.whole:
		t.list = append(t.list, target)
	case !again:
		t.list = append(t.list, scheduler.Target{Message: v.Message})
	}
}

// byMessage are the targets, those of a message together: what is sent
// elsewhere of it goes as one.
func (t *targets) byMessage() []scheduler.Target {
	if t.mixed && !t.whole {
		slices.SortStableFunc(t.list, func(a, b scheduler.Target) int { return cmp.Compare(t.met[a.Message], t.met[b.Message]) })
	}
	return t.list
}

// order gives the core an order in parts, no faster than the disk follows.
func (q *Queue) order(ctx context.Context, e scheduler.Ordered, t *targets) (did mailq.Outcome, err error) {
	list := t.byMessage()
	for len(list) > 0 && err == nil {
		n := 0
		err = q.port.Ask(ctx, func(l *daemon.Loop) {
			if !e.DryRun && l.Status().Writing > filingMost {
				return
			}
			n = orderPart(l.Core(), list)
			e.Targets = list[:n]
			answer := l.Order(e)
			did.Messages += answer.Messages
			did.Recipients += answer.Recipients
		})
		list = list[n:]
		if n > 0 || err != nil {
			continue
		}
		select {
		case <-time.After(filingPause):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if did.Recipients > 0 {
		did.Threads = len(t.threads)
	}
	return did, err
}

// orderPart returns how many of the targets one order may have: whole
// messages, as the core looks at every vertex of each.
func orderPart(core *scheduler.Scheduler, list []scheduler.Target) int {
	weight, last := 0, scheduler.MessageID(0)
	for n, target := range list {
		if n > 0 && target.Message == last {
			continue
		}
		last = target.Message
		if m := core.Message(last); m != nil {
			weight += m.Vertices
		}
		if n > 0 && (n >= orderSlice || weight > orderWeight) {
			return n
		}
	}
	return len(list)
}
