package scheduler

import (
	"strings"

	"zsched/ctlfile"
)

// arrive takes a message into the queue. One without open recipients is
// finished at once.
func (dv *delivery) arrive(in *Message) {
	if dv.byID[in.ID] != 0 {
		dv.do(Note{Severity: Warning, Message: in.ID, Text: "is in the queue already, not taken twice"})
		return
	}
	m := dv.newMessage(in)
	dv.byID[m.id] = m.ref
	dv.counts.Messages++
	dv.counts.MessagesIn++
	dv.counts.BytesIn += uint64(max(0, in.Size))
	dv.counts.RecipientsIn += uint64(m.open)
	dv.counts.Recipients += int(m.open)
	dv.obsolete(m, in.Obsoletes)
	if m.open == 0 {
		dv.finish(m)
		return
	}
	dv.eachVertex(m, dv.enterQueue)
}

func (dv *delivery) newMessage(in *Message) *message {
	dv.loaded++
	ref, m := dv.messages.alloc()
	*m = message{
		id:         in.ID,
		ref:        ref,
		sequence:   dv.loaded,
		sender:     dv.senders.add(in.Sender),
		modifiedAt: at(in.ModifiedAt),
		changedAt:  atSecond(in.ChangedAt),
		owner:      in.Owner,
	}
	if in.NullSender {
		m.flags |= nullSender
	}
	if in.Owes {
		m.flags |= owesNotice
	}
	m.levels = uint8(strings.Count(in.Path, "/"))
	if dv.path(m) != in.Path {
		dv.obtainExtras(m).path = in.Path
	}
	if in.ErrorTo != in.Sender {
		m.flags |= ownErrorTo
		dv.obtainExtras(m).errorTo = in.ErrorTo
	}
	if in.LogID != "" {
		m.logHash = hashLogID(in.LogID)
		dv.linkLogID(m)
	}
	var flags recipientFlags
	if in.Released {
		flags = mustAttempt
	}
	dv.groupRecipients(m, in.Recipients, flags)
	return m
}

// group parts the recipients into vertices, one for each channel and host.
func (q *queue) groupRecipients(m *message, in []Recipient, flags recipientFlags) {
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
		m.open++
		m.recipients++
		if r.Class != 0 {
			q.joinSet(m, r.Class, v, v.len()-1)
		}
	}
}

func (q *queue) newVertex(m *message, key threadKey) *vertex {
	ref, v := q.vertices.alloc()
	if m.first == 0 {
		m.first = ref
	} else {
		x := q.obtainExtras(m)
		x.vertices = append(x.vertices, ref)
	}
	t := q.obtainThread(key)
	v.ref, v.message, v.thread = ref, m.ref, t.ref
	q.linkVertex(t, v)
	q.states[0]++
	return v
}

func (ml *mail) addRecipient(v *vertex, r *Recipient, flags recipientFlags) {
	if r.Notify&ctlfile.NotifySuccess != 0 {
		flags |= notifySuccess
	}
	if r.Notify&ctlfile.NotifyFailure != 0 {
		flags |= notifyFailure
	}
	in := recipient{offset: uint32(r.Offset), flags: flags, state: open}
	if v.count == 0 {
		v.first = in
	} else {
		if v.more == 0 {
			v.more, _ = ml.moreRecipients.alloc()
		}
		rest := ml.moreRecipients.at(v.more)
		*rest = append(*rest, in)
	}
	v.count++
	v.open++
	t := ml.threadOf(v)
	t.recipients++
	t.channel.in++
}

// enter puts a new vertex where it belongs: due, unless all of its
// recipients wait for alternatives.
func (q *queue) enterQueue(v *vertex) {
	q.counts.Vertices++
	if q.feedable(v) == 0 {
		q.setState(v, blocked, 0)
		q.planWake(v)
		return
	}
	q.makeDue(v)
}
