package text

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestNothingFromOutsideCommandsATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"smtp; 250 ok":            "smtp; 250 ok",
		"päivää 日本":               "päivää 日本",
		"\x1b]0;x\x07\x9b2J\x7f":  `^[]0;x^G\x9b2J^?`,
		"a\tb\rc\nd\x00":          "a\tb^Mc^Jd^@",
		"\u009b2J":                `\u009b2J`,
		"\u202egpj.exe":           `\u202egpj.exe`,
		"\U000e0041":              `\U000e0041`,
		"\xff\xc3":                `\xff\xc3`,
		"nobreak\u00a0 \u2028end": "nobreak\\u00a0 \\u2028end",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestLinesOfJSONKeepTheirMeaning(t *testing.T) {
	for text, want := range map[string]string{
		"plain päivää\n":                        "plain päivää",
		"\x1b]0;x\x07 \u009b2J\n":               `\u001b]0;x\u0007 \u009b2J`,
		"\u202egpj.exe\u2028 \U000e0041 \u007f": `\u202egpj.exe\u2028 \udb40\udc41 \u007f`,
	} {
		line, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var to strings.Builder
		if n, err := (JSONWriter{&to}).Write(append(line, '\n')); n != len(line)+1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		var read string
		if err := json.Unmarshal([]byte(to.String()), &read); err != nil || read != text || !strings.Contains(to.String(), want) {
			t.Errorf("%q became %s, %v", text, to.String(), err)
		}
		if !strings.HasSuffix(to.String(), "\"\n") {
			t.Errorf("%q has no line end", to.String())
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]0;x\a\xff\u009b\tx")
	f.Fuzz(func(t *testing.T, text string) {
		shown := Escape(text)
		if Escape(shown) != shown {
			t.Errorf("%q is not plain", shown)
		}
		if strings.ContainsFunc(strings.ReplaceAll(shown, "\t", ""), unicode.IsControl) {
			t.Errorf("%q has control bytes", shown)
		}
	})
}

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
