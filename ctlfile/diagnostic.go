package ctlfile

import (
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxText is how many bytes a d line's notary, and its text, are cut to.
const MaxText = 8162

// diagnostic reads a d line. Nothing in it can make the file malformed: many
// programs write them, and the mail is worth more than what was said of it.
// An unreadable number counts as unknown.
func (p *parser) diagnostic(at int, tag Tag, value string) {
	if tag != Open && tag != Delivered {
		return
	}
	numbers, said, _ := strings.Cut(value, "\t")
	d := Diagnostic{Offset: int64(at), Tag: tag, Recipient: 0, Header: -1, N: -1}
	n, rest := cutNumber(numbers)
	if 0 < n && n < int64(at) {
		d.Recipient = n
	}
	if n, rest = cutNumber(rest); 0 <= n && n < int64(at) {
		d.Header = n
	}
	n, rest = cutNumber(rest)
	d.N = p.file.nLine(n)
	_, rest = cutNumber(rest)
	seconds, extra := cutNumber(rest)
	if seconds > 0 {
		d.At = time.Unix(seconds, 0)
	}
	notary, text, whole := strings.Cut(said, "\t")
	switch {
	case !whole:
		// The line was cut short and something else ended it: how the notary
		// went on is unknown, so it must not decide anything.
		d.Text = notary
	case extra != "" || seconds < 0 && rest != "":
		// What stands before the notary is no time: it is another format.
		d.Text = text
	default:
		d.Notary, d.Text = notary, text
	}
	p.file.Diagnostics = append(p.file.Diagnostics, d)
}

// cutNumber takes a number and its colon off s; -1 if it is no number.
func cutNumber(s string) (n int64, rest string) {
	digits, rest, _ := strings.Cut(s, ":")
	n, err := strconv.ParseInt(strings.Trim(digits, " "), 10, 64)
	if err != nil {
		return -1, rest
	}
	return n, rest
}

// nLine is the offset of the N line that a d line means: agents write that
// offset, the old scheduler wrote the one of its value, two bytes on.
func (f *File) nLine(offset int64) int64 {
	i := sort.Search(len(f.Recipients), func(i int) bool { return f.Recipients[i].Offset >= offset }) - 1
	if i >= 0 {
		if n := f.Recipients[i].N; n >= 0 && (n == offset || n+2 == offset) {
			return n
		}
	}
	return -1
}

// AppendTo appends the d line to b, as agents write it: N is the offset of
// the letter. What would break the line is made harmless: in Notary and Text
// a line end becomes CR, TAB and NUL a space, and neither is longer than
// MaxText.
func (d *Diagnostic) AppendTo(b []byte) []byte {
	b = append(b, 'd', byte(Open))
	b = strconv.AppendInt(b, d.Recipient, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, d.Header, 10)
	b = append(b, ':')
	b = strconv.AppendInt(b, d.N, 10)
	b = append(b, "::"...)
	b = strconv.AppendInt(b, max(0, d.At.Unix()), 10)
	b = append(b, '\t')
	b = appendClean(b, d.Notary)
	b = append(b, '\t')
	b = appendClean(b, d.Text)
	return append(b, '\n')
}

func appendClean(b []byte, s string) []byte {
	if len(s) > MaxText {
		end := MaxText
		for end > MaxText-utf8.UTFMax+1 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\n':
			b = append(b, '\r')
		case '\t', 0:
			b = append(b, ' ')
		default:
			b = append(b, c)
		}
	}
	return b
}
