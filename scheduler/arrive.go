package scheduler

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"zsched/ctlfile"
	"zsched/scheduler/fair"
)

// Arrival: a message that was loaded is put into the queue, and its x lines
// drop the messages that it obsoletes.

// arrive puts a message into the queue. A message without open recipients is
// finished at once.
func (dv *delivery) arrive(in *Message) {
	if dv.byID.Find(uint64(in.ID)) != 0 || dv.unloaded.find(in.ID) != 0 {
		dv.do(Note{Severity: Warning, Message: in.ID, Text: "is already in the queue, not loaded again"})
		return
	}
	m := dv.newMessage(in)
	dv.byID.Add(m.ref)
	dv.counts.Messages++
	dv.counts.MessagesIn++
	dv.counts.BytesIn += uint64(max(0, in.Size))
	dv.counts.RecipientsIn += uint64(m.open)
	if in.UnderHold {
		m.flags |= underHold
		dv.countUnderHold(m, 1)
	}
	dv.counts.Recipients += int(m.open)
	dv.eachVertex(m, func(v *vertex) { dv.threadOf(v).channel.in += uint64(dv.openOf(v)) })
	dv.restore(m, in.Saved)
	dv.obsolete(m, in.Obsoletes)
	if m.open == 0 {
		dv.finish(m, 0, 0)
		return
	}
	dv.eachVertex(m, dv.enterQueue)
	dv.eachVertex(m, dv.recordArrival)
	dv.holdArrived(m, in)
	if dv.restoreOrders(m) {
		return
	}
	dv.planInterimNotice(m)
	if dv.holdOrders.messages[m.ref] != nil {
		return
	}
	if !dv.staysLoaded(m) {
		dv.unload(m)
		return
	}
	dv.eachVertex(m, func(v *vertex) { dv.overfeedThread(dv.threadOf(v)) })
}

func (dv *delivery) newMessage(in *Message) *message {
	dv.loaded++
	ref, m := dv.messages.Alloc()
	*m = message{
		id:         in.ID,
		ref:        ref,
		sequence:   dv.loaded,
		sender:     dv.obtainSender(origin{in.Sender, in.ErrorTo, in.Owner}),
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
	if !isPathOf(in.Path, m.id, m.levels()) {
		dv.obtainExtras(m).path = in.Path
	}
	dv.logHashes.Set(ref, hashLogID(in.LogID))
	dv.groupRecipients(m, in.Recipients, 0)
	return m
}

// groupRecipients makes one vertex for each channel and host.
func (q *queue) groupRecipients(m *message, in []ctlfile.OpenRecipient, flags recipientFlags) {
	var byThread map[threadKey]*vertex
	var latest *vertex
	var latestKey threadKey
	for i := range in {
		r := &in[i]
		key := threadKey{r.Channel, r.Host}
		v := latest
		if latest == nil || key != latestKey {
			v = byThread[key]
			if v == nil {
				v = q.newVertex(m, key)
				if byThread == nil && len(in) > 1 {
					byThread = make(map[threadKey]*vertex)
				}
				if byThread != nil {
					byThread[key] = v
				}
			}
			latest, latestKey = v, key
		}
		q.addRecipient(v, r, flags)
		q.rememberDelays(v, r, m.modifiedAt)
		m.open++
		if r.Class != 0 {
			q.joinSet(m, r.Class, v, q.lenOf(v)-1)
		}
	}
}

func (q *queue) newVertex(m *message, key threadKey) *vertex {
	ref, v := q.vertices.Alloc()
	if m.first == 0 {
		m.first = ref
	} else {
		x := q.obtainExtras(m)
		x.vertices = append(x.vertices, ref)
		v.ordinal = uint16(min(len(x.vertices), fair.MaxOrdinal))
	}
	t := q.obtainThread(key)
	v.ref, v.message, v.thread = ref, m.ref, t.ref
	q.linkVertex(t, v)
	q.states[0]++
	return v
}

func (ml *mail) addRecipient(v *vertex, r *ctlfile.OpenRecipient, flags recipientFlags) {
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
	in := recipient{offset: uint32(r.Offset), flags: flags, state: open, attempts: uint16(min(r.Attempts, int(^uint16(0))))}
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
func (q *queue) enterQueue(v *vertex) {
	q.counts.Vertices++
	if q.messageOf(v).flags&underHold != 0 {
		q.setState(v, held, 0)
		q.updateThread(q.threadOf(v))
		return
	}
	if q.feedable(v) == 0 {
		q.setState(v, blocked, 0)
		q.planWake(v)
		return
	}
	if v.state == waiting && !q.threadOf(v).params.QueueOnly {
		q.planWake(v)
		return
	}
	q.makeDue(v)
}

// recordArrival records for queries and the event log that a new vertex has come.
func (q *queue) recordArrival(v *vertex) {
	q.threadOf(v).lastEventAt = q.date.second()
	if v.state == blocked {
		q.recordVertex(v, "blocked")
	}
}

// obsolete drops the messages that the new one replaces: those with one of
// these log identities, and with the same error address and owner. A message that is not
// loaded is not replaced: both are delivered.
func (dv *delivery) obsolete(by *message, logIDs []string) {
	for _, found := range dv.withLogIDs(logIDs...) {
		for _, m := range found {
			a, b := dv.origin(m), dv.origin(by)
			if m == by || m.flags&(removing|obsoleted) != 0 || m.open == 0 || a.errorTo != b.errorTo || a.owner != b.owner {
				continue
			}
			dv.dropObsolete(m, by.id)
		}
	}
}

func (dv *delivery) dropObsolete(m *message, by MessageID) {
	m.flags |= obsoleted
	why := "obsoleted by " + strconv.FormatUint(uint64(by), 10)
	dv.do(Note{Message: m.id, Text: why})
	dv.apply(&Ordered{Verb: VerbKill, Name: "KILL", Why: why}, m, dv.openVertices(m), new(Answer))
}

// hashLogID returns the hash that represents a log identity in memory; 0 if there is
// none. If two identities have the same hash, one is taken for the other only if the
// error address and the owner are also the same.
func hashLogID(id string) uint64 {
	if id == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return max(1, h.Sum64())
}

// withLogIDs returns the messages with each of the log identities, the latest first.
// Few identities are ever looked for, so there is no index of them, which would cost
// each message three accesses to scattered memory. The search goes through the hashes
// of all messages: those of a million take about a millisecond.
func (ml *mail) withLogIDs(logIDs ...string) [][]*message {
	if len(logIDs) == 0 {
		return nil
	}
	found := make(map[uint64][]*message, len(logIDs))
	var filter [64]uint64 // bits that exclude nearly all other hashes
	for _, id := range logIDs {
		if hash := hashLogID(id); hash != 0 {
			found[hash] = nil
			filter[hash>>6&63] |= 1 << (hash & 63)
		}
	}
	for n, hash := range ml.logHashes.All {
		if filter[hash>>6&63]>>(hash&63)&1 == 0 {
			continue
		}
		if known, wanted := found[hash]; wanted {
			found[hash] = append(known, ml.messages.At(n))
		}
	}
	all := make([][]*message, len(logIDs))
	for i, id := range logIDs {
		all[i] = found[hashLogID(id)]
		slices.SortFunc(all[i], func(a, b *message) int { return cmp.Compare(b.sequence, a.sequence) })
	}
	return all
}
