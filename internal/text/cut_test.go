package text

import "testing"

func TestNoCharacterIsSplit(t *testing.T) {
	for _, c := range []struct {
		text   string
		max    int
		cut    string
		marked string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abc", 2, "ab", "ab…"},
		{"abc", 0, "", "…"},
		{"aä", 3, "aä", "aä"},
		{"aäb", 3, "aä", "aä…"},
		{"aäb", 2, "a", "a…"},
		{"€", 2, "", "…"},
		{"a😀", 4, "a", "a…"},
		{"\x80\x80\x80\x80\x80\x80\x80\x80", 7, "\x80\x80\x80\x80", "\x80\x80\x80\x80…"}, // not UTF-8
	} {
		if got := Cut(c.text, c.max); got != c.cut {
			t.Errorf("%q, %d: %q, want %q", c.text, c.max, got, c.cut)
		}
		if got := CutMarked(c.text, c.max); got != c.marked {
			t.Errorf("%q, %d: %q, want %q", c.text, c.max, got, c.marked)
		}
	}
}
