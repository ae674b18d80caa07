package eventlog

// Lines: how an event and its fields become a line of JSON.

import (
	"strings"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/internal/text"
	"zsched/mailq"
	"zsched/ta"
)

// maxText bounds a text in a line, in bytes before it is escaped.
const maxText = 500

const timeFormat = "2006-01-02T15:04:05.000Z"

// line is a line that is being built. write writes it.
type line struct{ e *zerolog.Event }

// begin begins the line of an event that happens now.
func (l *Log) begin(event string) line { return beginLine(&l.out, l.now, event) }

func beginLine(out *zerolog.Logger, now time.Time, event string) line {
	return line{out.Log()}.time("time", now).text("event", event)
}

func (n line) write() { n.e.Send() }

// message adds the identity of a message; it adds nothing if the message is not in the queue.
func (n line) message(m *message) line {
	if m.id == 0 {
		return n
	}
	return n.text("spoolid", ctlfile.SpoolID(uint64(m.id), m.since)).text("message_id", m.messageID).text("sender", m.sender)
}

// thread adds the channel and host of a thread.
func (n line) thread(channel, host string) line { return n.text("channel", channel).text("host", host) }

// order adds who has given an order, and why.
func (n line) order(by, why string) line { return n.text("by", by).text("because", oneLine(why)) }

// times adds when a message was submitted and how long ago that was.
func (n line) times(from, now time.Time) line {
	n.time("since", from).e.Float64("delay", float64(max(0, now.Sub(from)).Milliseconds())/1000)
	return n
}

// time adds a time, unless it is zero.
func (n line) time(field string, at time.Time) line {
	if !at.IsZero() {
		n.e.Str(field, at.UTC().Format(timeFormat))
	}
	return n
}

func (n line) number(field string, x int) line {
	n.e.Int(field, x)
	return n
}

// text adds a text, unless it is empty. A long one ends with "…".
func (n line) text(field, s string) line {
	if s != "" {
		n.e.Str(field, text.CutMarked(s, maxText))
	}
	return n
}

// saidReply is what the other side said at the end of an attempt.
type saidReply struct{ peer, code, text string }

// parseReply reads an agent's report. The text is the last reply of a transcript.
// With withFirst, which is for an expiry, the first line of the report comes before
// it: it says why the recipient was given up.
func parseReply(notary, said string, withFirst bool) saidReply {
	n := ta.Notary(notary)
	code, _, _ := strings.Cut(n.Code(), " ")
	_, peer, typed := strings.Cut(n.Remote(), ";")
	if !typed {
		peer = n.Remote()
	}
	reply := mailq.LastReply(said)
	if first, rest, _ := strings.Cut(strings.TrimLeft(said, "\r"), "\r"); withFirst && rest != "" {
		reply = first + " " + reply
	}
	if reply == "" {
		_, reply, _ = strings.Cut(n.Diagnostic(), ";")
	}
	return saidReply{strings.TrimSpace(peer), code, oneLine(reply)}
}

// oneLine replaces line ends and TABs with blanks.
func oneLine(s string) string {
	if strings.ContainsAny(s, "\r\n\t") {
		s = strings.Map(func(r rune) rune {
			if r == '\r' || r == '\n' || r == '\t' {
				return ' '
			}
			return r
		}, s)
	}
	return strings.TrimSpace(s)
}
