package ctlfile

import (
	"strings"
	"testing"
)

// No old program read X lines: a file with no other recipients was deleted, and
// no notice was sent.
func TestAlternativesAreTriedInOrder(t *testing.T) {
	for _, c := range []struct{ tags, open, done string }{
		{"      ", "abd", ""},
		{"~     ", "bd", ""},
		{"-     ", "bcd", "a"},
		{"- ~  -", "bd", "af"},
		{"- -- -", "be", "acdf"},
		{"- -   ", "bde", "ac"},
		{"- - - ", "bd", "ace"},
		{"+     ", "bd", "ace"},
		{"- +   ", "bd", "ace"},
		{"   -+ ", "bf", "acde"},
		{"   +  ", "ab", "df"},
		{"    + ", "bd", "ace"},
		{"  ~ - ", "bd", "e"},
		{" +    ", "ad", "b"},
		{"------", "", "abcdef"},
	} {
		lines := []string{
			"r?          1 smtp a u 0\n", "r?          smtp b u 0\n", "r?          1 smtp c u 0\n",
			"r?          2 smtp d u 0\n", "r?          1 smtp e u 0\n", "r?          2 smtp f u 0\n",
		}
		for i := range lines {
			if i != 1 {
				lines[i] = "X" + lines[i][1:]
			}
			lines[i] = lines[i][:1] + c.tags[i:i+1] + lines[i][2:]
		}
		f := mustParse(t, aFile(strings.Join(lines, "")))
		open, done := "", ""
		for i, r := range f.Recipients {
			if f.Open(i) {
				open += r.Host
			}
			if f.Done(i) {
				done += r.Host
			}
		}
		equal(t, "open of "+c.tags, open, c.open)
		equal(t, "done of "+c.tags, done, c.done)
	}
}
