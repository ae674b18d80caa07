package text

// Cutting: a text that is too long is shortened, and no character is split.

import "unicode/utf8"

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

// CutMarked is Cut with "…" in place of what is left out.
func CutMarked(s string, max int) string {
	if len(s) <= max {
		return s
	}
	return Cut(s, max) + "…"
}
