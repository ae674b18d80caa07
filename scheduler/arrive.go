package scheduler

import (
	"strings"

	"zsched/ctlfile"
)

// arrive takes a message into the queue. One without open recipients is
// finished at once.
func (s *Scheduler) arrive(in *Message) {
	if s.byID[in.ID] != 0 {
		s.do(Note{Severity: Warning, Message: in.ID, Text: "is in the queue already, not taken twice"})
		return
	}
	m := s.newMessage(in)
	s.byID[m.id] = m.ref
	s.counts.Messages++
	s.counts.MessagesIn++
	s.counts.RecipientsIn += uint64(m.open)
	s.counts.Recipients += int(m.open)
	s.obsolete(m, in.Obsoletes)
	if m.open == 0 {
		s.finish(m)
		return
	}
	s.eachVertex(m, s.enterQueue)
}

func (s *Scheduler) newMessage(in *Message) *message {
	s.loaded++
	ref, m := s.messages.alloc()
	*m = message{
		id:         in.ID,
		ref:        ref,
		sequence:   s.loaded,
		sender:     s.senders.add(in.Sender),
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
	if s.path(m) != in.Path {
		s.obtainExtras(m).path = in.Path
	}
	if in.ErrorTo != in.Sender {
		m.flags |= ownErrorTo
		s.obtainExtras(m).errorTo = in.ErrorTo
	}
	if in.LogID != "" {
		m.logHash = hashLogID(in.LogID)
		s.linkLogID(m)
	}
	var flags recipientFlags
	if in.Released {
		flags = mustAttempt
	}
	s.groupRecipients(m, in.Recipients, flags)
	return m
}

// group parts the recipients into vertices, one for each channel and host.
func (s *Scheduler) groupRecipients(m *message, in []Recipient, flags recipientFlags) {
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
				v = s.newVertex(m, key)
				if byThread == nil && len(in) > 1 {
					byThread = make(map[threadKey]*vertex)
				}
				if byThread != nil {
					byThread[key] = v
				}
			}
			latest, latestKey = v, key
		}
		s.addRecipient(v, r, flags)
		m.open++
		m.recipients++
		if r.Class != 0 {
			s.joinSet(m, r.Class, v, v.len()-1)
		}
	}
}

func (s *Scheduler) newVertex(m *message, key threadKey) *vertex {
	ref, v := s.vertices.alloc()
	if m.first == 0 {
		m.first = ref
	} else {
		x := s.obtainExtras(m)
		x.vertices = append(x.vertices, ref)
	}
	t := s.obtainThread(key)
	v.ref, v.message, v.thread = ref, m.ref, t.ref
	s.linkVertex(t, v)
	s.states[0]++
	return v
}

func (s *Scheduler) addRecipient(v *vertex, r *Recipient, flags recipientFlags) {
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
			v.more, _ = s.moreRecipients.alloc()
		}
		rest := s.moreRecipients.at(v.more)
		*rest = append(*rest, in)
	}
	v.count++
	v.open++
	t := s.threadOf(v)
	t.recipients++
	t.channel.in++
}

// enter puts a new vertex where it belongs: due, unless all of its
// recipients wait for alternatives.
func (s *Scheduler) enterQueue(v *vertex) {
	s.counts.Vertices++
	if s.feedable(v) == 0 {
		s.setState(v, blocked, 0)
		s.planWake(v)
		return
	}
	s.makeDue(v)
}
