// Package xfer is the protocol that moves mail from one node to another: its lines, the
// table of nodes, and the connections. The agent ta/xfer sends, the receiver
// xfer/receiver takes. Its manual is xfer(8).
//
//	S: 220 mx2 xfer 3
//	C: LHLO mx1 xfer 3
//	S: 250 mx2
//	C: PUSH 17 412 2048 1795354801000000000
//	C: (412 bytes of a control file, then 2048 bytes of the message)
//	S: 250 17 ok
//	C: PUSH 18 390 1200 1795354802000000000
//	C: (390 + 1200 bytes)
//	S: 451 18 no space left on device
//	C: QUIT
//
// Both nodes name their version of the protocol, and neither goes on if they differ.
//
// A line ends with LF and has at most MaxLine bytes. The words of PUSH are a number
// for the reply, the sizes of both files, and the time when the message arrived
// (nanoseconds since 1970). The messages that wait for their replies on all connections are
// taken together.
//
// A reply 250 says that the recipients are on the disk of the receiver. 451 says that none
// was taken for now, and 550 that somebody has to change something first. A line that is not
// understood is answered with 550 and the number 0, and ends the connection.
//
// The control file is what an order to move has written: each recipient has an origin
// (ctlfile.Origin), which says what it was before. The receiver remembers the ids of the
// origins that it has taken for a week, and answers a repeated push with 250 without taking
// a recipient again.
package xfer

import (
	"bufio"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Version is the version of the protocol, in the greeting.
const Version = "3"

const (
	// MaxLine bounds the length of a line, with its LF.
	MaxLine = 4 << 10
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
	Refused  = 550
)

// ErrLine says that a line is not one of the protocol.
var ErrLine = errors.New("not a line of the protocol")

// ReadLine reads a line without its LF. The line has at most the size of the buffer, which
// is to be MaxLine.
func ReadLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("a line of more than %d bytes, which begins with %.100q: %w", MaxLine, line, ErrLine)
	}
	if err != nil {
		return "", err
	}
	return string(line[:len(line)-1]), nil
}

// Push is the line before the files of a message.
type Push struct {
	Tag              uint64 // names it in the reply
	Control, Message int64  // sizes in bytes
	ModifiedAt       int64  // mtime of the message file, in nanoseconds since 1970
}

// String returns the line without LF.
func (p *Push) String() string {
	return fmt.Sprintf("PUSH %d %d %d %d", p.Tag, p.Control, p.Message, p.ModifiedAt)
}

// ParsePush reads the line.
func ParsePush(line string) (Push, error) {
	words := strings.Split(line, " ")
	if len(words) != 5 || words[0] != "PUSH" {
		return Push{}, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	var n [4]uint64
	for i, word := range words[1:] {
		var err error
		if n[i], err = strconv.ParseUint(word, 10, 63); err != nil {
			return Push{}, fmt.Errorf("%.100q: %w", line, ErrLine)
		}
	}
	if n[1] > MaxControl {
		return Push{}, fmt.Errorf("%.100q: the control file is too large: %w", line, ErrLine)
	}
	return Push{n[0], int64(n[1]), int64(n[2]), int64(n[3])}, nil
}

// Reply is the reply to a Push.
type Reply struct {
	Code int
	Tag  uint64 // 0: it is about the connection
	Text string
}

// String returns the line without LF.
func (r *Reply) String() string {
	text := strings.Map(func(c rune) rune {
		if c < ' ' {
			return ' '
		}
		return c
	}, r.Text)
	return fmt.Sprintf("%d %d %.*s", r.Code, r.Tag, maxText, text)
}

// ParseReply reads the line.
func ParseReply(line string) (Reply, error) {
	code, rest, _ := strings.Cut(line, " ")
	tag, text, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	t, e := strconv.ParseUint(tag, 10, 64)
	if err = errors.Join(err, e); err != nil {
		return Reply{}, fmt.Errorf("%.100q: %w", line, ErrLine)
	}
	return Reply{n, t, fmt.Sprintf("%.*s", maxText, text)}, nil
}
