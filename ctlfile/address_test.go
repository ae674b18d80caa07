package ctlfile

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct {
		text string
		want Address
	}{
		{"smtp example.net bob@example.net 0", Address{"smtp", "example.net", "bob@example.net", "0"}},
		{"local - - -1", Address{"local", "-", "-", "-1"}},
		{"local - bob", Address{"local", "-", "bob", ""}},
		{"local - bob 501 more words", Address{"local", "-", "bob", "501 more words"}},
		{" local  -\t bob \t 501", Address{"local", "-", "bob", "501"}},
		{`local - "carol x" 501`, Address{"local", "-", `"carol x"`, "501"}},
		{`local - "a\"b c"@d 501`, Address{"local", "-", `"a\"b c"@d`, "501"}},
		{`local - a\ b 501`, Address{"local", "-", `a\ b`, "501"}},
		{`local - "|cmd ""x y" 501`, Address{"local", "-", `"|cmd ""x y"`, "501"}},
		{`"a b" "c d" "" 1`, Address{`"a b"`, `"c d"`, `""`, "1"}},
		{"smtp ((mx1)(mx2 mx3)) u 0", Address{"smtp", "((mx1)(mx2 mx3))", "u", "0"}},
		{"smtp (mx1 u 0", Address{"smtp", "(mx1", "u", "0"}},
		{"smtp (mx1)x u 0", Address{"smtp", "(mx1)x", "u", "0"}},
		{"smtp ) u 0", Address{"smtp", ")", "u", "0"}},
	} {
		q, reason := parseAddress(c.text)
		if reason != "" || q != c.want {
			t.Errorf("parseAddress(%q) = %q, %q; want %q", c.text, q, reason, c.want)
		}
	}
}

func TestParseAddressRefuses(t *testing.T) {
	for text, want := range map[string]string{
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
		if q, reason := parseAddress(text); reason == "" || !strings.Contains(reason, want) {
			t.Errorf("parseAddress(%q) = %q, %q; want %q", text, q, reason, want)
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

// The old writer did not refuse a line end, so senders could add lines of their
// own.
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
		want := Address{words[0], words[1], words[2], "65534"}
		if q, reason := parseAddress(want.String()); reason != "" || q != want {
			t.Fatalf("parseAddress(%q) = %q, %q", want, q, reason)
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
		equal(t, host, Address{Host: host}.RouteHost(), want)
	}
	equal(t, "channel", Address{Channel: "SMTP"}.RouteChannel(), "smtp")
}
