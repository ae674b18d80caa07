package scheduler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"zsched/scheduler/view"
)

// Hold orders: what administrators keep back until a time, or until somebody lets it go. Of
// a thread that is held, they keep back what is there and what comes. Of a message, they keep
// back all of it (hold.go).

// HoldOrder is a HOLD that is in force. Its record (scheduler-state(5)) says
// the same.
type HoldOrder = view.Hold

// endOf returns when an order ends by itself.
func endOf(o *HoldOrder) date {
	if o.Until.IsZero() {
		return noDate
	}
	return dateOf(o.Until)
}

// heldThread holds the mail for a channel and host, or releases it. What an
// agent has stays with the agent.
func (od *orders) heldThread(e *HeldThread) {
	key := threadKey{e.Channel, e.Host}
	delete(od.heldThreads, key)
	if o := e.HoldOrder; e.Held { // if its time is over, holdOrdersEnded ends it
		od.heldThreads[key] = &o
		od.holdEnd = min(od.holdEnd, endOf(&o))
	}
	t, held := od.s.threads.byKey[key], od.heldThreads[key] != nil
	if t == nil || t.held == held {
		return
	}
	t.held = held
	if held {
		od.s.threads.updateThread(t)
		return
	}
	od.s.threads.beginUpdate(t, releaseHeld)
}

const (
	// holdEnded is the reason of a release at the end of a hold.
	holdEnded = "the hold has reached its time limit"
	// maxReleased bounds the messages that are released at once; the others follow holdPause
	// later.
	maxReleased = 200
	holdPause   = 10 * time.Millisecond
)

// holdOrdersEnded ends the orders whose time has come.
func (od *orders) holdOrdersEnded() {
	messages, nextMessage := ended(od.heldMessages, od.s.agenda.date, cmp.Compare[messageRef])
	threads, nextThread := ended(od.heldThreads, od.s.agenda.date, threadKey.compare)
	next := min(nextMessage, nextThread)
	if len(messages) > maxReleased {
		messages, next = messages[:maxReleased], od.s.agenda.date.after(holdPause)
	}
	for _, ref := range messages {
		m := od.s.mail.messages.At(ref)
		od.s.log.recordTouched(&Ordered{Verb: view.VerbRelease, By: "scheduler", Because: holdEnded}, m.id, m.modifiedAt, int(m.open))
		od.releaseNow(m)
	}
	if len(messages) > 0 {
		od.s.agenda.do(Note{Text: fmt.Sprintf("a hold has reached its time limit: messages: %d", len(messages))})
	}
	for _, key := range threads {
		od.heldThread(&HeldThread{Channel: key.channel, Host: key.host})
		od.s.agenda.do(Note{Text: "a hold has reached its time limit: thread " + key.channel + "/" + key.host})
		od.s.log.record(Condition{State: "release", Channel: key.channel, Host: key.host, By: "scheduler", Because: holdEnded})
	}
	od.holdEnd = next
}

// ended returns what orders keep back whose time is over, in order, and when the next ends.
func ended[K comparable](orders map[K]*HoldOrder, now date, compare func(a, b K) int) (keys []K, next date) {
	next = noDate
	for key, o := range orders {
		if end := endOf(o); end <= now {
			keys = append(keys, key)
		} else {
			next = min(next, end)
		}
	}
	slices.SortFunc(keys, compare)
	return keys, next
}

func (k threadKey) compare(other threadKey) int {
	return cmp.Or(cmp.Compare(k.channel, other.channel), cmp.Compare(k.host, other.host))
}

// HeldThreads returns the threads that are held, by channel and host.
func (s *Scheduler) HeldThreads() []view.HeldThread {
	list := make([]view.HeldThread, 0, len(s.orders.heldThreads))
	for key, o := range s.orders.heldThreads {
		list = append(list, view.HeldThread{Name: key.view(), Hold: *o})
	}
	slices.SortFunc(list, func(a, b view.HeldThread) int {
		return threadKey{a.Channel, a.Host}.compare(threadKey{b.Channel, b.Host})
	})
	return list
}

// OldestHeld returns when the oldest of the messages that are held arrived, and why it is held;
// the zero time: there is none.
func (s *Scheduler) OldestHeld() (arrivedAt time.Time, why string) {
	var oldest *message
	for ref, o := range s.orders.heldMessages {
		m := s.mail.messages.At(ref)
		if oldest == nil || cmp.Or(cmp.Compare(m.modifiedAt, oldest.modifiedAt), cmp.Compare(m.id, oldest.id)) < 0 {
			oldest, arrivedAt, why = m, m.modifiedAt.time(), o.Because
		}
	}
	return arrivedAt, why
}

// HeldMessages returns the messages that are held, or are to be when agents report, by number.
func (s *Scheduler) HeldMessages() []MessageID {
	ids := make([]MessageID, 0, len(s.orders.heldMessages))
	for ref := range s.orders.heldMessages {
		ids = append(ids, s.mail.messages.At(ref).id)
	}
	slices.Sort(ids)
	return ids
}
