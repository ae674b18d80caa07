// Package xfer is the protocol that moves mail from one node to another: its lines, the
// table of nodes, and the connections. The agent ta/xfer sends, the receiver
// xfer/receiver takes. Its manual is xfer(8).
//
//	S: 220 mx2 xfer 2
//	C: LHLO mx1 xfer 2
//	S: 250 mx2
//	C: PUSH 17 412 2048 1795354801000000000 1001 416
//	C: (412 bytes of a control file, then 2048 bytes of the message)
//	C: PUSH 18 390 1200 1795354802000000000 1001 416
//	C: (390 + 1200 bytes)
//	S: 250 17 ok
//	S: 250 18 refused=156 programs and files are not accepted
//	C: DONE mx1/S258367XMVQKNOA 109,156
//	C: QUIT
//
// Both nodes name their version of the protocol, and neither goes on if they differ.
//
// A line ends with LF and has at most MaxLine bytes. The words of PUSH are a number
// for the reply, the sizes of both files, the time when the message arrived
// (nanoseconds since 1970), and the owner and the mode of the message file, which the
// receiver ignores. The next PUSH need not wait for the reply to the one before, and
// replies come in any order.
//
// A reply 250 says that the recipients are on the disk of the receiver, except those at
// the offsets that it names as refused: these stay with the sender. 451 says that none
// was taken for now, 452 that the disk is too full for a message of this size, 550 that the
// sender has to change something, and 552 that the message is too large. 452 and 552 may
// come before the files are sent; the sender sends them nevertheless.
//
// The control file is what a REROUTE to channel xfer has written: each recipient has an
// origin (ctlfile.Origin), which says what it was before. The receiver remembers the
// origins that it has taken. It answers a repeated PUSH with 250 and takes nothing
// twice. DONE says that the sender will not push these recipients again. It has no reply.
// The node in the origins of PUSH, DONE and HAVE is the one that sends them, or one whose
// postoffice it may take over (nodes(5)). The receiver refuses others, and ignores such a
// DONE: a node could make this one drop or forget the mail of another node.
//
// Before a scheduler sends recipients elsewhere that were on their way to a node, it asks
// that node, on a connection of its own, which of them it has, because the answer to a
// push may have been lost:
//
//	C: HAVE 1 mx1/S258367XMVQKNOA 109,156
//	S: 250 1 taken=109
//
// Before it answers, the receiver ends all connections on which that node pushes, so that
// nothing that is still on the wire arrives later.
package xfer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"zsched/ctlfile"
)

// Version is the version of the protocol, in the greeting.
const Version = "2"

const (
	// MaxLine bounds the length of a line, with its LF.
	MaxLine = 64 << 10
	// MaxControl bounds the size of a control file in bytes: both sides hold it in
	// memory.
	MaxControl = 64 << 20
	// maxText bounds the characters of the text of a reply, which goes into
	// diagnostics.
	maxText = 1000
)

// The codes of replies.
const (
	Greeting = 220
	Accepted = 250
	Later    = 451
	Full     = 452
	Refused  = 550
	TooLarge = 552
)

// The status codes (RFC 3463) of the reports of xfer(8) that further attempts do not change.
const (
	StatusRefused  = "4.7.1" // the node refuses the recipient, or the message
	StatusTooLarge = "4.3.4" // for the node
	StatusNoOrigin = "4.3.5" // the recipient was not moved by mailq move
)

// IsFinal reports whether a status code of xfer(8) is one that further attempts do not
// change: somebody has to.
func IsFinal(status string) bool {
	return status == StatusRefused || status == StatusTooLarge || status == StatusNoOrigin
}

// ErrLine says that a line is not one of the protocol.
var ErrLine = errors.New("not a line of the protocol")

// Push is the line before the files of a message.
type Push struct {
	Tag              uint64 // names it in the reply
	Control, Message int64  // sizes in bytes
	ModifiedAt       int64  // mtime of the message file, in nanoseconds since 1970
	Owner            uint32 // uid of the message file
	Mode             uint32 // its permission bits
}

// String returns the line without LF.
func (p *Push) String() string {
	return fmt.Sprintf("PUSH %d %d %d %d %d %d", p.Tag, p.Control, p.Message, p.ModifiedAt, p.Owner, p.Mode)
}

// ParsePush reads the line.
func ParsePush(line string) (Push, error) {
	var p Push
	words := strings.Split(line, " ")
	if len(words) != 7 || words[0] != "PUSH" {
		return p, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	var n [6]uint64
	for i, word := range words[1:] {
		var err error
		if n[i], err = strconv.ParseUint(word, 10, 63); err != nil {
			return p, fmt.Errorf("%.100q: %w", line, ErrLine)
		}
	}
	if n[1] > MaxControl || n[4] > 1<<32-2 || n[5] > 0o777 {
		return p, fmt.Errorf("%.100q: a number is too large: %w", line, ErrLine)
	}
	return Push{n[0], int64(n[1]), int64(n[2]), int64(n[3]), uint32(n[4]), uint32(n[5])}, nil
}

// Reply is the reply to a Push or a Have.
type Reply struct {
	Code    int
	Tag     uint64  // 0: it is about the connection
	Refused []int64 // with Accepted, to a Push: offsets of recipients that were not taken
	Taken   []int64 // with Accepted, to a Have: offsets of recipients that the node has
	Text    string
}

// String returns the line without LF.
func (r *Reply) String() string {
	lists := ""
	if len(r.Refused) > 0 {
		lists = "refused=" + joinOffsets(r.Refused) + " "
	}
	if len(r.Taken) > 0 {
		lists += "taken=" + joinOffsets(r.Taken) + " "
	}
	text := strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, r.Text)
	return fmt.Sprintf("%d %d %s%.*s", r.Code, r.Tag, lists, maxText, text)
}

// ParseReply reads the line.
func ParseReply(line string) (Reply, error) {
	var r Reply
	code, rest, _ := strings.Cut(line, " ")
	tag, text, _ := strings.Cut(rest, " ")
	var err, e error
	r.Code, err = strconv.Atoi(code)
	r.Tag, e = strconv.ParseUint(tag, 10, 64)
	if err = errors.Join(err, e); err != nil {
		return r, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	for _, list := range []struct {
		prefix string
		to     *[]int64
	}{{"refused=", &r.Refused}, {"taken=", &r.Taken}} {
		if words, found := strings.CutPrefix(text, list.prefix); found {
			words, text, _ = strings.Cut(words, " ")
			if *list.to, err = splitOffsets(words); err != nil {
				return r, fmt.Errorf("%.100q: %w", line, ErrLine)
			}
		}
	}
	r.Text = fmt.Sprintf("%.*s", maxText, text)
	return r, nil
}

// Done is the line that says that recipients will not be pushed again.
type Done struct {
	Message string // the first two parts of their origins: node/spoolid
	Offsets []int64
}

// maxOffsets bounds the offsets in a Done, so that its line is not too long.
const maxOffsets = 4000

// DoneWith returns the lines for recipients: one for each message from which they come,
// or more if they are many.
func DoneWith(origins []ctlfile.Origin) (lines []Done) {
	for _, from := range origins {
		message := from.Message()
		i := slices.IndexFunc(lines, func(d Done) bool { return d.Message == message && len(d.Offsets) < maxOffsets })
		if i < 0 {
			i = len(lines)
			lines = append(lines, Done{Message: message})
		}
		lines[i].Offsets = append(lines[i].Offsets, from.Offset)
	}
	return lines
}

// ID returns the part of an origin that identifies one of the recipients, as that of
// ctlfile.Origin does.
func (d *Done) ID(offset int64) string { return d.Message + "/" + strconv.FormatInt(offset, 10) }

// Node returns the node in the origins, as ctlfile.Origin has it.
func (d *Done) Node() string { return d.Message[:max(0, strings.LastIndexByte(d.Message, '/'))] }

// String returns the line without LF.
func (d *Done) String() string { return "DONE " + d.Message + " " + joinOffsets(d.Offsets) }

// ParseDone reads the line.
func ParseDone(line string) (Done, error) {
	words := strings.Split(line, " ")
	if len(words) != 3 || words[0] != "DONE" || words[1] == "" {
		return Done{}, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	offsets, err := splitOffsets(words[2])
	if err != nil {
		return Done{}, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	return Done{words[1], offsets}, nil
}

// Have is the line that asks which of the recipients of a message a node has.
type Have struct {
	Tag uint64 // names it in the reply; not 0
	Done
}

// String returns the line without LF.
func (h *Have) String() string {
	return fmt.Sprintf("HAVE %d %s %s", h.Tag, h.Message, joinOffsets(h.Offsets))
}

// ParseHave reads the line.
func ParseHave(line string) (Have, error) {
	rest, found := strings.CutPrefix(line, "HAVE ")
	tag, rest, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseUint(tag, 10, 64)
	done, e := ParseDone("DONE " + rest)
	if !found || n == 0 || err != nil || e != nil {
		return Have{}, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	return Have{n, done}, nil
}

func joinOffsets(offsets []int64) string {
	var b []byte
	for i, offset := range offsets {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, offset, 10)
	}
	return string(b)
}

func splitOffsets(list string) (offsets []int64, err error) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, n)
	}
	return offsets, nil
}
