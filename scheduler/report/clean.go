package report

// Cleaning: making text from a remote server or a sender safe for a notice.

import (
	"strings"
	"unicode"

	"zsched/internal/text"
)

const (
	maxLine  = 500  // bytes of a line that comes from outside
	maxReply = 12   // lines of a reply that a notice quotes
	maxField = 2000 // bytes of a delivery status field
)

// oneLine returns s as valid UTF-8, without control and format characters (those
// that reorder text are among them), and with blanks in place of line ends.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "?")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == 0x2028 || r == 0x2029:
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s))
}

// clip shortens s to max bytes; a shortened text ends with "...".
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return text.Cut(s, max-len("...")) + "..."
}

// toASCII replaces every character that is not ASCII with a question mark.
func toASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '?'
		}
		return r
	}, s)
}

// reply returns what the other side said, as lines: all lines that are not part of
// a transcript, and then the last reply of the transcript. Without any text it
// returns the diagnostic code. theirs reports whether all lines come from the
// other side.
func (r *Recipient) reply() (lines []string, theirs bool) {
	var last []string
	inReply := false
	for line := range strings.SplitSeq(r.Text, "\r") {
		said, reply := strings.CutPrefix(line, "->>")
		if reply && !inReply {
			last = nil
		}
		inReply = reply
		line = clip(oneLine(line), maxLine)
		switch {
		case reply:
			last = append(last, clip(oneLine(said), maxLine))
		case line != "" && !strings.HasPrefix(line, "<<-"):
			lines = append(lines, line)
		}
	}
	theirs = len(lines) == 0
	lines = append(lines, last...)
	if len(lines) == 0 {
		kind, said, _ := strings.Cut(r.Diagnostic, ";")
		theirs = strings.EqualFold(strings.TrimSpace(kind), "smtp")
		if oneLine(said) != "" {
			lines = []string{clip(oneLine(said), maxLine)}
		}
	}
	if len(lines) > maxReply {
		lines = append([]string{"..."}, lines[len(lines)-maxReply:]...)
	}
	return lines, theirs
}
