package scheduler

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"zsched/ctlfile"
	"zsched/scheduler/fair"
	"zsched/scheduler/view"
)

// Arrival: a message that was loaded is put into the queue, and its x lines
// drop the messages that it obsoletes.

// arrivals puts messages into the queue.
type arrivals struct {
	s *Scheduler
}

// arrive puts a message into the queue. A message without open recipients is
// finished at once.
func (ar *arrivals) arrive(in *Message) {
	if ar.s.mail.byID.Find(uint64(in.ID)) != 0 {
		ar.s.agenda.do(Note{Severity: Warning, Message: in.ID, Text: "is already in the queue, not loaded again"})
		return
	}
	m := ar.newMessage(in)
	ar.s.mail.byID.Add(m.ref)
	ar.s.mail.counts.Messages++
	ar.s.mail.counts.MessagesIn++
	ar.s.mail.counts.BytesIn += uint64(max(0, in.Size))
	ar.s.mail.counts.RecipientsIn += uint64(m.open)
	if in.Found {
		ar.s.mail.counts.MessagesFound++
		ar.s.mail.counts.RecipientsFound += uint64(m.open)
	}
	if in.UnderHold {
		m.flags |= underHold
	}
	ar.s.mail.counts.Recipients += int(m.open)
	ar.s.saved.restore(m, in.Saved)
	ar.obsolete(m, in.Obsoletes)
	if m.open == 0 {
		ar.s.writes.finish(m, 0, 0)
		return
	}
	ar.s.mail.eachVertex(m, ar.enterQueue)
	ar.s.orders.holdArrived(m, in)
	if ar.s.saved.restoreOrders(m, in.Orders) {
		return
	}
	ar.s.notices.planInterimNotice(m)
	if ar.s.orders.heldMessages[m.ref] != nil {
		return
	}
	ar.s.mail.eachVertex(m, func(v *vertex) { ar.s.rings.overfeedThread(ar.s.mail.threadOf(v)) })
}

func (ar *arrivals) newMessage(in *Message) *message {
	ar.s.mail.loaded++
	ref, m := ar.s.mail.messages.Alloc()
	*m = message{
		id:         in.ID,
		ref:        ref,
		sequence:   ar.s.mail.loaded,
		sender:     ar.s.mail.obtainSender(origin{in.Sender, in.ErrorTo, in.Source, in.Owner}),
		modifiedAt: dateOf(in.ModifiedAt),
		changedAt:  secondOf(in.ChangedAt),
	}
	if in.NullSender {
		m.flags |= nullSender
	}
	if in.Owes {
		m.flags |= owesNotice
	}
	m.flags |= messageFlags(min(strings.Count(in.Path, "/"), 3)) << levelsShift
	var buffer [longestPath]byte
	if in.Path != string(usualPath(&buffer, m.id, m.levels())) {
		ar.s.mail.obtainExtras(m).path = in.Path
	}
	ar.s.mail.logHashes.Set(ref, hashMessageID(in.MessageID))
	for i := range in.Recipients {
		r := &in.Recipients[i]
		v := ar.obtainVertex(m, threadKey{r.Channel, r.Host})
		ar.s.mail.addRecipient(v, r)
		if !in.Found {
			ar.s.mail.threadOf(v).ring.channel.counts.In++
		}
		ar.s.notices.rememberDelays(v, r)
		m.open++
		if r.Class != 0 {
			ar.s.mail.joinSet(m, r.Class, v, ar.s.mail.lenOf(v)-1)
		}
	}
	return m
}

// obtainVertex finds or makes the vertex of a new message for a channel and host. If there is one,
// it is the last of its thread.
func (ar *arrivals) obtainVertex(m *message, key threadKey) *vertex {
	t := ar.s.threads.obtainThread(key)
	if last := t.vertices.Tail; last != 0 && ar.s.mail.vertices.At(last).message == m.ref {
		return ar.s.mail.vertices.At(last)
	}
	ref, v := ar.s.mail.vertices.Alloc()
	if m.first == 0 {
		m.first = ref
	} else {
		x := ar.s.mail.obtainExtras(m)
		x.vertices = append(x.vertices, ref)
		v.ordinal = uint16(min(len(x.vertices), fair.MaxOrdinal))
	}
	v.ref, v.message, v.thread = ref, m.ref, t.ref
	ar.s.threads.linkVertex(t, v)
	ar.s.mail.states[0]++
	return v
}

func (ml *mail) addRecipient(v *vertex, r *ctlfile.OpenRecipient) {
	flags := recipientFlags(0)
	if r.Notify&ctlfile.NotifySuccess != 0 {
		flags |= notifySuccess
	}
	if r.Notify&ctlfile.NotifyFailure != 0 {
		flags |= notifyFailure
	}
	if r.Notify.Wants(ctlfile.NotifyDelay) {
		flags |= notifyDelay
	}
	if r.Attempts > 0 {
		flags |= triedBefore
	}
	in := recipient{offset: uint32(r.Offset), flags: flags, state: open, attempts: bounded[uint16](r.Attempts)}
	if v.first.state == 0 {
		v.first = in
	} else {
		if v.more == 0 {
			n, more := ml.moreRecipients.Alloc()
			v.more, more.open = n, 1
		}
		more := ml.moreRecipients.At(v.more)
		more.list = append(more.list, in)
		more.open++
	}
	ml.threadOf(v).recipients++
}

// enterQueue makes a new vertex due; or leaves it waiting, if that was restored; or
// blocked, if all of its recipients are alternatives that wait for others; or held, if its
// files lie under hold/.
func (ar *arrivals) enterQueue(v *vertex) {
	ar.s.mail.counts.Vertices++
	if ar.s.mail.messageOf(v).flags&underHold != 0 {
		ar.s.threads.setState(v, held, 0)
		ar.s.threads.updateThread(ar.s.mail.threadOf(v))
		return
	}
	if v.state == waiting && !ar.s.mail.threadOf(v).params.QueueOnly && ar.s.mail.feedable(v) > 0 {
		ar.s.notices.planWake(v)
		return
	}
	ar.s.threads.makeDue(v)
	if v.state == blocked {
		ar.s.log.recordVertex(v, "blocked", "")
	}
}

// maxObsoletes bounds the Message-IDs of a message that are looked for.
const maxObsoletes = 10

// obsolete drops the messages that the new one replaces: those with one of
// these Message-IDs, and with the same error address and owner.
func (ar *arrivals) obsolete(by *message, messageIDs []string) {
	for _, id := range messageIDs[:min(len(messageIDs), maxObsoletes)] {
		for _, m := range ar.s.mail.withMessageID(id) {
			a, b := ar.s.mail.origin(m), ar.s.mail.origin(by)
			if m == by || m.flags&removing != 0 || m.open == 0 || a.errorTo != b.errorTo || a.owner != b.owner {
				continue
			}
			ar.dropObsolete(m, by.id)
		}
	}
}

func (ar *arrivals) dropObsolete(m *message, by MessageID) {
	why := "obsoleted by " + strconv.FormatUint(uint64(by), 10)
	ar.s.agenda.do(Note{Message: m.id, Text: why})
	ar.s.orders.apply(&Ordered{Verb: view.VerbKill, Because: why}, m, ar.s.mail.openVertices(m), new(Answer))
}

// hashMessageID returns the hash that represents a Message-ID in memory; 0 if there is
// none. If two identities have the same hash, one is taken for the other only if the
// error address and the owner are also the same.
func hashMessageID(id string) uint64 {
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return max(1, h.Sum64())
}

// withMessageID returns the messages with a Message-ID, the latest first. Few identities are ever
// looked for, so there is no index of them, which would cost each message three accesses to
// scattered memory. The search goes through the hashes of all messages: those of a million take
// about a millisecond.
func (ml *mail) withMessageID(id string) (found []*message) {
	wanted := hashMessageID(id)
	for n, hash := range ml.logHashes.All {
		if hash == wanted && hash != 0 {
			found = append(found, ml.messages.At(n))
		}
	}
	slices.SortFunc(found, func(a, b *message) int { return cmp.Compare(b.sequence, a.sequence) })
	return found
}
