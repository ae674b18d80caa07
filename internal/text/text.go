// Package text handles text from outside: it escapes what a terminal would act on, what
// separates lines for some readers and what changes the direction of text; it shortens
// text that is too long (Cut); and it finds the reply of a server in a report (LastReply).
package text

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Escape escapes all characters that cannot be printed: control bytes become ^M and ^[,
// other characters \u009b, bytes that are not UTF-8 \x9b. TABs stay.
func Escape(text string) string { return EscapeExcept(text, "\t") }

// EscapeExcept is Escape that leaves the characters in keep, and only these, as they are.
func EscapeExcept(text, keep string) string {
	if clean(text, keep) {
		return text
	}
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case printable(r, keep):
			b.WriteString(text[i : i+size])
		case r < ' ' || r == 0x7f:
			b.WriteByte('^')
			b.WriteByte(byte(r) ^ 0x40)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// clean reports whether EscapeExcept would change nothing.
func clean(text, keep string) bool {
	for i := range len(text) {
		if text[i] < ' ' && !strings.Contains(keep, text[i:i+1]) || text[i] >= 0x7f {
			return cleanRunes(text, keep)
		}
	}
	return true
}

func cleanRunes(text, keep string) bool {
	if !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if !printable(r, keep) {
			return false
		}
	}
	return true
}

func printable(r rune, keep string) bool {
	return unicode.IsPrint(r) || strings.ContainsRune(keep, r)
}

// EscapeJSON escapes a line of JSON, or several, without changing the meaning. Bytes that are
// not UTF-8 become U+FFFD.
func EscapeJSON(line string) string {
	const keep = "\t\n"
	if clean(line, keep) {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		switch high, low := utf16.EncodeRune(r); {
		case printable(r, keep):
			b.WriteRune(r)
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// JSONWriter passes lines of JSON on as EscapeJSON escapes them. Each Write has whole lines.
type JSONWriter struct{ To io.Writer }

// Write implements io.Writer.
func (w JSONWriter) Write(lines []byte) (int, error) {
	text := string(lines)
	safe := EscapeJSON(text)
	if safe == text {
		return w.To.Write(lines)
	}
	if _, err := io.WriteString(w.To, safe); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// IsTerminal reports whether what is written to w appears on a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Cut returns at most max bytes of s, from its beginning. A character that max would
// split is left out.
func Cut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	end := max
	for end > 0 && end > max-utf8.UTFMax+1 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// CutMiddle leaves out the middle of a text of more than max bytes. Its beginning says what it is about,
// and its end what the result was.
func CutMiddle(s string, max int) string {
	const left = "\r...\r"
	if len(s) <= max {
		return s
	}
	room := max - len(left)
	// A character that is cut in two is dropped.
	return Cut(s, room/4) + left + strings.ToValidUTF8(s[len(s)-room*3/4:], "")
}

// CutMarked is Cut with "…" in place of what is left out.
func CutMarked(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Cut(s, max) + "…"
}
