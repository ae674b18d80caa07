package scheduler

import (
	"strings"

	"zsched/ctlfile"
)

// arrive takes a message into the queue. One without open recipients is
// finished at once.
func (s *Scheduler) arrive(in *Message) {
	if s.messages[in.ID] != nil {
		s.do(Note{Severity: Warning, Message: in.ID, Text: "is in the queue already, not taken twice"})
		return
	}
	m := s.newMessage(in)
	s.messages[m.id] = m
	s.counts.Messages++
	s.counts.MessagesIn++
	s.counts.RecipientsIn += uint64(m.open)
	s.counts.Recipients += int(m.open)
	s.obsolete(m, in.Obsoletes)
	if m.open == 0 {
		s.finish(m)
		return
	}
	m.vertices(s.enter)
}

func (s *Scheduler) newMessage(in *Message) *message {
	s.taken++
	m := &message{
		id:         in.ID,
		order:      s.taken,
		sender:     in.Sender,
		modifiedAt: at(in.ModifiedAt),
		changedAt:  atSecond(in.ChangedAt),
		owner:      in.Owner,
	}
	if in.NullSender {
		m.flags |= nullSender
	}
	if in.Owes {
		m.flags |= owes
	}
	m.levels = uint8(strings.Count(in.Path, "/"))
	if m.path() != in.Path {
		m.extra().path = in.Path
	}
	if in.ErrorTo != in.Sender {
		m.flags |= errorToSet
		m.extra().errorTo = in.ErrorTo
	}
	if in.LogID != "" {
		m.log = logHash(in.LogID)
		s.linkLog(m)
	}
	var flags recipientFlags
	if in.Released {
		flags = spared
	}
	m.group(s, in.Recipients, flags)
	return m
}

// group parts the recipients into vertices, one for each channel and host.
func (m *message) group(s *Scheduler, in []Recipient, flags recipientFlags) {
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
				v = m.newVertex(s, key)
				if byThread == nil && len(in) > 1 {
					byThread = make(map[threadKey]*vertex)
				}
				if byThread != nil {
					byThread[key] = v
				}
			}
			latest, latestKey = v, key
		}
		v.add(r, flags)
		m.open++
		m.recipients++
		if r.Class != 0 {
			m.join(r.Class, v, v.len()-1)
		}
	}
}

func (m *message) newVertex(s *Scheduler, key threadKey) *vertex {
	v := &m.vertex
	if v.message != nil {
		v = new(vertex)
		m.extra().vertices = append(m.extra().vertices, v)
	}
	v.message = m
	v.thread = s.obtainThread(key)
	v.thread.link(v)
	s.states[0]++
	return v
}

func (v *vertex) add(r *Recipient, flags recipientFlags) {
	if r.Notify&ctlfile.NotifySuccess != 0 {
		flags |= tellSuccess
	}
	if r.Notify&ctlfile.NotifyFailure != 0 {
		flags |= tellFailure
	}
	in := recipient{offset: uint32(r.Offset), flags: flags, state: open}
	switch {
	case v.open == 0:
		v.first = in
	case v.rest == nil:
		v.rest = &[]recipient{in}
	default:
		*v.rest = append(*v.rest, in)
	}
	v.open++
	v.thread.recipients++
	v.thread.channel.in++
}

// enter puts a new vertex where it belongs: due, unless all of its
// recipients wait for alternatives.
func (s *Scheduler) enter(v *vertex) {
	s.counts.Vertices++
	if v.openNow() == 0 {
		s.become(v, dormant, 0)
		s.planWake(v)
		return
	}
	s.makeDue(v)
}
