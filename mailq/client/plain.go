package client

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain makes text from outside safe for a terminal. Control bytes become ^M and
// ^[, other characters that cannot be printed \u009b, bytes that are not UTF-8
// \x9b. TABs stay.
func Plain(text string) string { return escape(text, "\t") }

// escape replaces all characters that are neither printable nor in keep.
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

// clean reports whether escape would change nothing.
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

// plainJSON makes a line of JSON safe for a terminal without changing its meaning.
// Bytes that are not UTF-8 become U+FFFD.
func plainJSON(line string) string {
	if clean(line, "\t") {
		return line
	}
	var b strings.Builder
	for _, r := range line {
		switch high, low := utf16.EncodeRune(r); {
		case printable(r, "\t"):
			b.WriteRune(r)
		case high != unicode.ReplacementChar:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
