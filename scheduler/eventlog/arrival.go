package eventlog

import (
	"cmp"
	"slices"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// The lines about the arrival of a message, and the addresses that are kept of it.

// newMessage returns what is kept of a message, without its recipients.
func newMessage(in *scheduler.Message) *message {
	m := &message{
		id: in.ID, seconds: in.ModifiedAt.Unix(), nanoseconds: int32(in.ModifiedAt.Nanosecond()),
		messageID: in.MessageID, sender: in.Sender,
	}
	if in.NullSender {
		m.sender = "<>"
	}
	return m
}

// arrived writes the arrival of a message in the queue, and which of its recipients were done
// before.
func (l *Log) arrived(in *scheduler.Message) {
	m := newMessage(in)
	l.messages[in.ID] = m
	how := ""
	if m.held = in.UnderHold; in.ChangedAt.Before(l.startedAt) {
		how = "found at the start"
	}
	m.users = make([]user, 0, len(in.Recipients))
	for i := range in.Recipients {
		m.users = append(m.users, user{in.Recipients[i].Offset, in.Recipients[i].User})
	}
	l.arrivals(m, in, how)
	l.doneBefore(m, in.Done)
	l.owes(m, in.Owes)
}

// arrivals writes one line for each recipient of a message that arrives, and at least one.
func (l *Log) arrivals(m *message, in *scheduler.Message, how string) {
	end := func(b line) {
		b.text("file", in.Path).times(m.since(), l.now).number("size", int(max(0, in.Size))).number("recipients", len(in.Recipients)).
			text("text", how).write()
	}
	if len(in.Recipients) == 0 {
		end(l.begin("arrival").message(m))
	}
	for i := range in.Recipients {
		r := &in.Recipients[i]
		b := l.begin("arrival").message(m).text("recipient", r.User)
		for j, address := range r.Originals {
			b.text([...]string{"original", "alias"}[min(j, 1)], address)
		}
		end(b.thread(r.Channel, r.Host))
	}
}

// doneBefore writes one line for each recipient that was done when the control file was
// read. An agent may have finished with it while no scheduler was running.
func (l *Log) doneBefore(m *message, all []ctlfile.DoneRecipient) {
	for i := range all {
		r := &all[i]
		said := parseReply(r.Notary, r.Text, false)
		l.begin("done").message(m).text("recipient", r.User).thread(r.Channel, r.Host).
			text("peer", said.peer).text("status", string(r.Tag)).text("dsn", said.code).text("text", said.text).write()
	}
}

// address returns the address of the recipient at an offset, or "".
func (m *message) address(offset int64) string {
	if m == nil {
		return ""
	}
	i, found := slices.BinarySearchFunc(m.users, offset, func(u user, offset int64) int { return cmp.Compare(u.offset, offset) })
	if !found {
		return ""
	}
	return m.users[i].address
}
