package client

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain is text from outside in a form that a terminal shows and does not
// obey: control bytes as ^M and ^[, other characters without a picture as
// \u009b, bytes that are no UTF-8 as \x9b. Tabs stay.
func Plain(text string) string { return escape(text, "\t") }

// escape writes what is not printable and not kept in visible form.
func escape(text, keep string) string {
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
		case shown(r, keep):
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

// clean reports whether nothing in the text needs escaping.
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
		if !shown(r, keep) {
			return false
		}
	}
	return true
}

func shown(r rune, keep string) bool {
	return unicode.IsPrint(r) || strings.ContainsRune(keep, r)
}

// plainJSON is a line of JSON with the same meaning and nothing in it that
// commands a terminal. Bytes that are no UTF-8 become U+FFFD.
func plainJSON(line string) string {
	if clean(line, "\t") {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		switch high, low := utf16.EncodeRune(r); {
		case shown(r, "\t"):
			b.WriteRune(r)
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
