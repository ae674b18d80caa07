package ctlfile

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseQuad(t *testing.T) {
	for _, c := range []struct {
		text string
		want Quad
	}{
		{"smtp example.net bob@example.net 0", Quad{"smtp", "example.net", "bob@example.net", "0"}},
		{"local - - -1", Quad{"local", "-", "-", "-1"}},
		{"local - bob", Quad{"local", "-", "bob", ""}},
		{"local - bob 501 more words", Quad{"local", "-", "bob", "501 more words"}},
		{" local  -\t bob \t 501", Quad{"local", "-", "bob", "501"}},
		{`local - "carol x" 501`, Quad{"local", "-", `"carol x"`, "501"}},
		{`local - "a\"b c"@d 501`, Quad{"local", "-", `"a\"b c"@d`, "501"}},
		{`local - a\ b 501`, Quad{"local", "-", `a\ b`, "501"}},
		{`local - "|cmd ""x y" 501`, Quad{"local", "-", `"|cmd ""x y"`, "501"}},
		{`"a b" "c d" "" 1`, Quad{`"a b"`, `"c d"`, `""`, "1"}},
		{"smtp ((mx1)(mx2 mx3)) u 0", Quad{"smtp", "((mx1)(mx2 mx3))", "u", "0"}},
		{"smtp (mx1 u 0", Quad{"smtp", "(mx1", "u", "0"}},
		{"smtp (mx1)x u 0", Quad{"smtp", "(mx1)x", "u", "0"}},
		{"smtp ) u 0", Quad{"smtp", ")", "u", "0"}},
	} {
		q, err := ParseQuad(c.text)
		if err != nil || q != c.want {
			t.Errorf("ParseQuad(%q) = %q, %v; want %q", c.text, q, err, c.want)
		}
	}
}

func TestParseQuadRefuses(t *testing.T) {
	for text, reason := range map[string]string{
		"":                  "channel is missing",
		"local":             "host is missing",
		"local -":           "user is missing",
		"local - ":          "user is missing",
		`local - "a b 1`:    "user has an open quote",
		`local "- a 1`:      "host has an open quote",
		`local - a\`:        "user has an open quote or backslash",
		"local - carol x 1": `privilege "x" is not a number`,
		"local - carol -":   `privilege "-" is not a number`,
		"local - carol 1a":  `privilege "1a" is not a number`,
	} {
		if q, err := ParseQuad(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseQuad(%q) = %q, %v; want %q", text, q, err, reason)
		}
	}
}

func TestQuote(t *testing.T) {
	for component, want := range map[string]string{
		"":                "-",
		"bob":             "bob",
		`"a b"@c`:         `"a b"@c`,
		`a\ b`:            `a\ b`,
		"carol x":         `"carol x"`,
		"a\tb":            "\"a\tb\"",
		"trailing ":       `"trailing "`,
		`a"b`:             `"a\"b"`,
		`a b\`:            `"a b\\"`,
		`back\`:           `"back\\"`,
		`say "hi" to x\y`: `"say \"hi\" to x\\y"`,
	} {
		if got, err := Quote(component); err != nil || got != want {
			t.Errorf("Quote(%q) = %q, %v; want %q", component, got, err, want)
		}
	}
}

// The old writer let a line end through, and with it lines of the sender's
// choice.
func TestQuoteRefusesLineEnds(t *testing.T) {
	for _, component := range []string{"a\nr x", "\n", "a\x00b", "\"a\nb\""} {
		if got, err := Quote(component); err == nil {
			t.Errorf("Quote(%q) = %q", component, got)
		}
	}
}

func TestQuotedWordsAreReadAsOneWord(t *testing.T) {
	component := rapid.StringMatching(`[a-z "\\\t().@-]{0,12}`)
	rapid.Check(t, func(t *rapid.T) {
		var words [3]string
		for i := range words {
			var err error
			if words[i], err = Quote(component.Draw(t, "component")); err != nil {
				t.Fatal(err)
			}
			if again, err := Quote(words[i]); err != nil || again != words[i] {
				t.Fatalf("Quote(%q) = %q, %v", words[i], again, err)
			}
		}
		if strings.HasPrefix(words[1], "(") {
			return // a list of hosts has its own rule
		}
		want := Quad{words[0], words[1], words[2], "65534"}
		if q, err := ParseQuad(want.String()); err != nil || q != want {
			t.Fatalf("ParseQuad(%q) = %q, %v", want, q, err)
		}
	})
}

func TestRoutesAreLowerCase(t *testing.T) {
	for host, want := range map[string]string{
		"Example.NET":              "example.net",
		"example.net":              "example.net",
		"((MX1)(mx2 mx3))":         "mx1",
		"(MX1 mx2)":                "mx1",
		"((mx1\tmx2))":             "mx1",
		"(":                        "",
		"B\xdcRO.\xc3\x84.Example": "b\xdcro.\xc3\x84.example",
	} {
		equal(t, host, Quad{Host: host}.RouteHost(), want)
	}
	equal(t, "channel", Quad{Channel: "SMTP"}.RouteChannel(), "smtp")
}
