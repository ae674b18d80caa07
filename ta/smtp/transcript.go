// This file holds the transcript: the lines of a session as reports and the
// protocol log (option -l) show them.

package smtp

import "zsched/internal/text"

// The directions of a line.
const (
	ours   = "<<-"
	theirs = "->>"
)

// LogLine is a line of the protocol log.
type LogLine struct {
	Conn      int    // number of the connection: 1, 2, …
	SpoolID   string // of the message that the connection is used or opened for; "": none
	Direction string // "<<-" for our lines, "->>" for the server's
	Text      string // without line end; no control characters
}

// transcript is part of a session as text. Each line follows a CR and its
// direction. Its length is bounded, because it may be kept for long.
type transcript struct{ text []byte }

func (t *transcript) add(direction, line string) {
	t.text = append(t.text, '\r')
	t.text = append(t.text, direction...)
	t.text = append(t.text, ' ')
	t.text = append(t.text, text.Escape(line)...)
	if len(t.text) > 2*maxText {
		t.text = []byte(text.CutMiddle(string(t.text), maxText))
	}
}

func (t *transcript) String() string { return text.CutMiddle(string(t.text), maxText) }

// exchange is the transcript of a command and its reply.
func exchange(command string, r Reply) string {
	size := len(command)
	for _, line := range r.Lines {
		size += len(line) + len("\r->> ")
	}
	t := transcript{make([]byte, 0, size+len("\r<<- "))}
	t.add(ours, command)
	for _, line := range r.Lines {
		t.add(theirs, line)
	}
	return t.String()
}

// maxText is how much of a transcript is kept and reported, in bytes. It is also
// how much of a reply is kept.
const maxText = 8000
