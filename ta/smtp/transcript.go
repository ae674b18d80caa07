// This file holds the transcript: the lines of a session as reports and the
// protocol log (option -l) show them.

package smtp

import (
	"strings"
)

// The directions of a line.
const (
	ours   = "<<-"
	theirs = "->>"
)

// transcript is part of a session as text. Each line follows a CR and its
// direction.
type transcript struct{ text strings.Builder }

func (t *transcript) add(direction, line string) {
	t.text.WriteString("\r" + direction + " " + line)
}

func (t *transcript) String() string { return t.text.String() }

// exchange is the transcript of a command and its reply.
func exchange(command string, r Reply) string {
	var t transcript
	t.add(ours, command)
	for _, line := range r.Lines {
		t.add(theirs, line)
	}
	return t.String()
}

// maxText is how much of a transcript is reported, in bytes.
const maxText = 8000

// clip removes the middle of a text that is too long. Its beginning says what it
// is about, and its end what the result was.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText/4] + "\r...\r" + text[len(text)-maxText*3/4:]
}

// visible replaces control characters, because what a server says appears in logs
// and on terminals.
func visible(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return '?'
		}
		return r
	}, line)
}
