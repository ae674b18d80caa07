package mailq

import (
	"testing"
)

func TestWords(t *testing.T) {
	for word, want := range map[string]string{
		"example.com": "example.com", "": `""`, "a b": `"a b"`, `"x`: `"\"x"`, `x"y`: `x"y`, `\`: `\`,
		"a\tb": `"a\tb"`, "a\nb\\": `"a\nb\\"`, "ö": "ö", "\x7f": `"\x7f"`, "\xff": "\xff",
	} {
		if got := Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
	for text, want := range map[string]string{
		`"a\tb\r\n\x41\X"`: "", `"a\tb\r\n\x41" rest`: "a\tb\r\nA", `  plain "rest`: "plain", `"open`: "", `"glued"on`: "", `"\x4"`: "", `"\`: "",
	} {
		got, _, _, err := CutWord(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("cutWord(%q) = %q, %v", text, got, err)
		}
	}
}
