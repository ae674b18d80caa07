package scheduler

// Thread returns a thread and its ring, nil where there is no mail.
func (s *Scheduler) Thread(channel, host string) (*ThreadView, *RingView) {
	t := s.threads[threadKey{channel, host}]
	if t == nil {
		return nil, nil
	}
	return s.viewThread(t), s.viewRing(t.memberOf)
}

// Message returns a message, nil if it is not in the queue.
func (s *Scheduler) Message(id MessageID) *MessageView {
	m := s.message(id)
	if m == nil {
		return nil
	}
	vertices := 1
	if m.extras != 0 {
		vertices += len(s.extras.at(m.extras).vertices)
	}
	if m.recipients == 0 {
		vertices = 0
	}
	return &MessageView{
		Message: m.id, Path: s.path(m), Sender: s.reversePath(m), ErrorTo: s.errorTo(m),
		ModifiedAt: m.modifiedAt.time(), ChangedAt: m.changedAt.time(),
		Vertices: vertices, Recipients: int(m.open), Leaving: m.flags&(removing|moving) != 0,
	}
}

// ByLogID returns at most so many of the messages with that log identity, the
// latest first. Only a hash of it is kept: the control files decide.
func (s *Scheduler) ByLogID(logID string, most int) []MessageID {
	var ids []MessageID
	for m := s.messages.get(s.byLogHash[hashLogID(logID)]); m != nil && len(ids) < most; m = s.olderWithLogID(m) {
		ids = append(ids, m.id)
	}
	return ids
}

// HasMail reports whether there is mail for a host on any channel, which is
// what a Triggered would start.
func (s *Scheduler) HasMail(host string) bool {
	for _, c := range s.channelOrder {
		if t := s.threads[threadKey{c.name, host}]; t != nil && t.vertices.len > 0 && !t.held {
			return true
		}
	}
	return false
}

// Channels returns all channels that mail was for, in the order of their
// coming up.
func (s *Scheduler) Channels() []ChannelView {
	views := make([]ChannelView, 0, len(s.channelOrder))
	for _, c := range s.channelOrder {
		views = append(views, ChannelView{
			Name: c.name, Agents: c.procs, Sessions: c.busy,
			In: c.in, Delivered: c.delivered, Deferred: c.deferred,
			Failed: c.failed, Expired: c.expired, Dropped: c.dropped,
		})
	}
	return views
}
