package eventlog

import (
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// The lines about the arrival of a message, and what is kept of it.

// message holds what all lines about a message repeat.
type message struct {
	id                scheduler.MessageID // 0: it is not in the queue, and nothing is known
	since             time.Time           // when it was submitted: the mtime of the message file
	messageID, sender string
	users             string // the lines of its recipients, as pack makes them
}

// pack returns what is kept of a message, as one string, since there may be a million
// messages. It has a line with the mtime (seconds, nanoseconds), one with the Message-ID, one
// with the sender, and one for each recipient (offset, address), by offset. A control file has
// lines too, so no line end is in them. The texts are shortened. Numbers have the base 36.
func (l *Log) pack(in *scheduler.Message) string {
	sender := in.Sender
	if in.NullSender {
		sender = "<>"
	}
	p := appendNumbered(nil, in.ModifiedAt.Unix(), strconv.FormatInt(int64(in.ModifiedAt.Nanosecond()), base))
	p = append(p, l.domains.shorten(in.MessageID)+"\n"+l.domains.shorten(sender)+"\n"...)
	for i := range in.Recipients {
		p = appendNumbered(p, in.Recipients[i].Offset, l.domains.shorten(in.Recipients[i].User))
	}
	return string(p)
}

const base = 36

func appendNumbered(p []byte, n int64, text string) []byte {
	p = append(strconv.AppendInt(p, n, base), ' ')
	return append(append(p, text...), '\n')
}

// numbered returns the number at the front of a line, and the text after it.
func numbered(line string) (int64, string) {
	number, text, _ := strings.Cut(line, " ")
	n, _ := strconv.ParseInt(number, base, 64)
	return n, strings.TrimSuffix(text, "\n")
}

// find returns a message in the queue.
func (l *Log) find(id scheduler.MessageID) (m message) {
	p, found := l.messages.find(id)
	if !found {
		return m
	}
	m.id = id
	mtime, p, _ := strings.Cut(p, "\n")
	messageID, p, _ := strings.Cut(p, "\n")
	sender, users, _ := strings.Cut(p, "\n")
	m.messageID, m.sender, m.users = l.domains.restore(messageID), l.domains.restore(sender), users
	seconds, after := numbered(mtime)
	nanoseconds, _ := numbered(after)
	m.since = time.Unix(seconds, nanoseconds)
	return m
}

// forget deletes a message that has left the queue.
func (l *Log) forget(id scheduler.MessageID) {
	l.messages.remove(id)
	delete(l.owing, id)
}

// address returns the address of the recipient at an offset, or "". There may be a million
// recipients, so it searches by halves.
func (l *Log) address(m *message, offset int64) string {
	for users := m.users; users != ""; {
		begin := strings.LastIndexByte(users[:len(users)/2], '\n') + 1
		line, after, _ := strings.Cut(users[begin:], "\n")
		switch at, address := numbered(line); {
		case at == offset:
			return l.domains.restore(address)
		case at < offset:
			users = after
		default:
			users = users[:begin]
		}
	}
	return ""
}

// arrived writes the arrival of a message in the queue, and which of its recipients were done
// before.
func (l *Log) arrived(in *scheduler.Message) {
	l.forget(in.ID)
	l.messages.add(in.ID, l.pack(in))
	m := l.find(in.ID)
	how := ""
	if in.Found {
		how = "found at the start"
	}
	l.arrivals(&m, in, how)
	l.doneBefore(&m, in.Done)
	l.owes(&m, in.Owes)
}

// manyRecipients is how many recipients a message may have to get a line for each when it arrives.
// All come at once, and the lines of 250 000 would take the room of those about other messages.
const manyRecipients = 1000

// arrivals writes one line for each recipient of a message that arrives, or one for many or none.
func (l *Log) arrivals(m *message, in *scheduler.Message, how string) {
	end := func(b line) {
		b.text("client", in.Client).text("source", in.Source).text("file", in.Path).times(m.since, l.now).
			number("size", int(max(0, in.Size))).number("recipients", len(in.Recipients)).text("text", how).write()
	}
	if n := len(in.Recipients); n == 0 || n > manyRecipients {
		end(l.begin("arrival").message(m))
		return
	}
	for _, r := range in.Recipients {
		b := l.begin("arrival").message(m).text("recipient", r.User)
		for j, address := range r.Originals {
			b.text([...]string{"original", "alias"}[min(j, 1)], address)
		}
		end(b.thread(r.Channel, r.Host))
	}
}

// doneBefore writes one line for each recipient that was done when the control file was
// read, or one for many. An agent may have finished with it while no scheduler was running.
func (l *Log) doneBefore(m *message, all []ctlfile.DoneRecipient) {
	if len(all) > manyRecipients {
		l.begin("done").message(m).number("recipients", len(all)).write()
		return
	}
	for _, r := range all {
		said := parseReply(r.Notary, r.Text, false)
		l.begin("done").message(m).text("recipient", r.User).thread(r.Channel, r.Host).
			text("peer", said.peer).text("status", string(r.Tag)).text("dsn", said.code).text("text", said.text).write()
	}
}
