package admin

// The progress of an order: the core is given it in parts, and its answer waits for files to be
// moved.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

// A large order is given to the core in parts, no faster than the disk can write.
const (
	maxTargets  = 200  // targets in one part
	maxVertices = 2000 // vertices of their messages in one part
	// maxWriting is how many changes to files may be unfinished. While there are
	// more, the order waits for writingPause.
	maxWriting   = 2000
	writingPause = 10 * time.Millisecond
)

// order gives the core an order in parts, and counts messages and recipients.
func (q *Queue) order(ctx context.Context, e scheduler.Ordered, t *targets) (did mailq.Outcome, err error) {
	list := t.list
	undone := -1 // Loop.UndoneEver before the first part; -1: not asked yet
	for len(list) > 0 && err == nil {
		n := 0
		err = q.port.Ask(ctx, func(l *daemon.Loop) {
			if !e.DryRun && l.Status().Writing+l.Core().Counts().Urgent > maxWriting {
				return
			}
			if undone < 0 {
				undone = l.UndoneEver()
			}
			n = countPart(l.Core(), list)
			e.Targets = list[:n]
			answer := l.Order(e)
			did.Messages += answer.Messages
			did.Recipients += answer.Recipients
			did.WithAgents += answer.WithAgents
			did.Refused += answer.Refused
		})
		list = list[n:]
		if n > 0 || err != nil {
			continue
		}
		err = pause(ctx)
	}
	if err == nil && !e.DryRun && undone >= 0 && movesFiles(e.Verb) {
		err = q.whenMoved(ctx, t, undone, &did)
	}
	return did, err
}

// movesFiles reports whether an order moves messages, or writes new ones.
func movesFiles(v scheduler.Verb) bool {
	return v == scheduler.VerbHold || v == scheduler.VerbRelease || v == scheduler.VerbRequeue || v == scheduler.VerbReroute
}

// maxAwaited is how many messages an order waits for until they are moved.
const maxAwaited = 100

// whenMoved waits until the messages of an order are moved, if they are not many, and
// returns an error if that has failed for some of them. undone is what Loop.UndoneEver
// returned before the order.
func (q *Queue) whenMoved(ctx context.Context, t *targets, undone int, did *mailq.Outcome) error {
	if len(t.spoolIDs) > maxAwaited {
		return nil
	}
	ids := make(map[scheduler.MessageID]struct{}, len(t.spoolIDs))
	for id := range t.spoolIDs {
		ids[id] = struct{}{}
	}
	for end, moving := time.Now().Add(maxMoving), true; moving; {
		if err := q.port.Ask(ctx, func(l *daemon.Loop) { moving = l.Core().Moving(ids) }); err != nil {
			return err
		}
		if !moving || !time.Now().Before(end) {
			break
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
	var failed []scheduler.Undone
	if err := q.port.Ask(ctx, func(l *daemon.Loop) { failed = l.Undone(undone) }); err != nil {
		return err
	}
	failed = slices.DeleteFunc(failed, func(u scheduler.Undone) bool { _, ours := ids[u.Message]; return !ours })
	if len(failed) == 0 {
		return nil
	}
	did.Messages = max(0, did.Messages-len(failed))
	return fmt.Errorf("%s failed for %s, in the queue as before (and was carried out for %d): %s", failed[0].Name,
		mailq.Plural(len(failed), "message", "messages"), did.Messages, failed[0].Reason)
}

// maxMoving bounds how long an order waits until messages are moved.
const maxMoving = 5 * time.Second

// pause waits for writingPause.
func pause(ctx context.Context) error {
	select {
	case <-time.After(writingPause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
		if m := core.Message(last); m != nil {
			vertices += m.Vertices
		}
		if n > 0 && (n >= maxTargets || vertices > maxVertices) {
			return n
		}
	}
	return len(list)
}
