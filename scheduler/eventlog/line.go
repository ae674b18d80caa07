package eventlog

// Lines: the events, their fields, and how they are written as JSON.

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/ta"
)

// event is the value of the field "event".
type event uint8

const (
	arrival event = iota
	done
	attempt
	expiry
	kill
	order
	resubmitted
	undone
	hold
	release
	parked
	quarantined
	refused
	poisoned
	blocked
	suspended
	rule
	lift
	owed
	notice
	gone
	spoolDown
	spoolUp
	lost
	end
)

var events = [...]string{
	"arrival", "done", "attempt", "expiry", "kill", "order", "resubmitted", "undone", "hold", "release", "parked", "quarantined", "refused",
	"poisoned", "blocked", "suspended", "rule", "lift", "owed", "notice", "gone", "spool-down", "spool-up", "lost", "end",
}

// field is the name of a field.
type field uint8

const (
	timeField field = iota
	eventField
	spoolid
	messageID
	sender
	recipient
	original
	alias
	channel
	host
	pid
	command
	peer
	statusField
	classField
	dsn
	textField
	since
	delay
	attempts
	next
	orderField
	by
	because
	to
	newFile
	newSpoolID
	file
	size
	recipients
	failed
	linesField
)

var fields = [...]string{
	"time", "event", "spoolid", "message_id", "sender", "recipient", "original", "alias", "channel", "host", "pid", "command", "peer", "status", "class", "dsn",
	"text", "since", "delay", "attempts", "next", "order", "by", "because", "to", "new", "new_spoolid", "file", "size", "recipients", "failed", "lines",
}

// maxText bounds a text in a line, in bytes before it is escaped.
const maxText = 500

// line is a line that is being built.
type line struct{ b []byte }

const timeFormat = "2006-01-02T15:04:05.000Z"

// begin begins the line of an event that happens now.
func (l *Log) begin(e event) *line {
	l.line.begin(l.now, e)
	return &l.line
}

// write completes the line and writes it.
func (l *Log) write() {
	l.line.b = append(l.line.b, '}', '\n')
	_, _ = l.out.Write(l.line.b)
}

func (n *line) begin(now time.Time, e event) {
	n.b = append(n.b[:0], `{"time":"`...)
	n.b = now.UTC().AppendFormat(n.b, timeFormat)
	n.b = append(n.b, `","event":"`...)
	n.b = append(n.b, events[e]...)
	n.b = append(n.b, '"')
}

func (n *line) key(f field) {
	n.b = append(n.b, ',', '"')
	n.b = append(n.b, fields[f]...)
	n.b = append(n.b, '"', ':')
}

// message appends the identity of a message; it appends nothing if m is nil.
func (n *line) message(m *message) *line {
	if m == nil {
		return n
	}
	return n.text(spoolid, m.spoolid).text(messageID, m.messageID).text(sender, m.sender)
}

// times appends when a message was submitted and how long ago that was.
func (n *line) times(from, now time.Time) *line {
	n.time(since, from)
	n.key(delay)
	n.b = strconv.AppendFloat(n.b, float64(max(0, now.Sub(from)).Milliseconds())/1000, 'f', 3, 64)
	return n
}

// time appends a time, unless it is zero.
func (n *line) time(f field, at time.Time) *line {
	if at.IsZero() {
		return n
	}
	n.key(f)
	n.b = append(n.b, '"')
	n.b = at.UTC().AppendFormat(n.b, timeFormat)
	n.b = append(n.b, '"')
	return n
}

func (n *line) number(f field, x int) *line {
	n.key(f)
	n.b = strconv.AppendInt(n.b, int64(x), 10)
	return n
}

// text appends a text, unless it is empty. A long one ends with "…".
func (n *line) text(f field, s string) *line {
	if s == "" {
		return n
	}
	n.key(f)
	n.b = append(n.b, '"')
	n.b = appendEscaped(n.b, text.CutMarked(s, maxText))
	n.b = append(n.b, '"')
	return n
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends the inside of a JSON string. Characters that a terminal or
// a reader of lines might act on are written as \uXXXX: control characters, line
// separators, and characters that change the direction of text.
func appendEscaped(b []byte, s string) []byte {
	clean := 0 // s[clean:i] needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, width := utf8.DecodeRuneInString(s[i:])
		if c >= utf8.RuneSelf && (r != utf8.RuneError || width > 1) && strconv.IsPrint(r) {
			i += width
			continue
		}
		b = append(b, s[clean:i]...)
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case r > 0xffff:
			r -= 0x10000
			b = appendUnit(appendUnit(b, 0xd800+r>>10), 0xdc00+r&0x3ff)
		default:
			b = appendUnit(b, r)
		}
		i += width
		clean = i
	}
	return append(b, s[clean:]...)
}

func appendUnit(b []byte, r rune) []byte {
	return append(b, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
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
