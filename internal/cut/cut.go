// Package cut shortens text that is too long, and splits no character of it.
package cut

import "unicode/utf8"

// Text returns at most max bytes of s, from its beginning. A character that max would
// split is left out.
func Text(s string, max int) string {
	if len(s) <= max {
		return s
	}
	end := max
	for end > 0 && end > max-utf8.UTFMax+1 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Marked is Text with "…" in place of what is left out.
func Marked(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Text(s, max) + "…"
}
