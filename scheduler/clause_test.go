package scheduler

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGlob has what people write, and where ZMailer matched otherwise.
func TestGlob(t *testing.T) {
	tests := []struct {
		pattern, s string
		want       bool
		before     string // what ZMailer did, if not the same
	}{
		{"*", "", true, ""},
		{"*", "mx.example.org", true, ""},
		{"*.toronto.edu", "cs.toronto.edu", true, ""},
		{"*.toronto.edu", "neat.cs.toronto.edu", true, ""},
		{"*.toronto.edu", "toronto.edu", false, ""},
		{"*.toronto.edu", "toronto.edu.example", false, ""},
		{"a*b*c", "a.b.b.c", true, ""},
		{"a*b*c", "acb", false, ""},
		{"**", "x", true, ""},
		{"mx?.org", "mx1.org", true, ""},
		{"mx?.org", "mx.org", false, ""},
		{"mx?.org", "mx12.org", false, ""},
		{"?", "/", true, ""},
		{"[abc].org", "b.org", true, ""},
		{"[abc].org", "d.org", false, ""},
		{"[b-d].org", "c.org", true, "- was a character of the set"},
		{"[b-d].org", "-.org", false, "- was a character of the set"},
		{"[bd-].org", "-.org", true, ""},
		{"[-bd].org", "-.org", true, ""},
		{"[a-c0-9]", "7", true, ""},
		{"[^abc].org", "d.org", true, "never matched"},
		{"[^abc].org", "b.org", false, ""},
		{"[!abc].org", "d.org", true, "! was a character of the set"},
		{"[^abc].org", ".org", false, ""},
		{"[]x].org", "].org", true, ""},
		{"[^]x].org", "y.org", true, ""},
		{"[^]x].org", "].org", false, ""},
		{"[.org", "[.org", true, ""},
		{"{smtp,uucp}", "uucp", true, ""},
		{"{smtp,uucp}", "local", false, ""},
		{"{smtp,uucp}-*", "uucp-x25", true, "what follows the brace was ignored"},
		{"{smtp,uucp}-*", "uucp", false, "what follows the brace was ignored"},
		{"{a,b{c,d}}", "bd", true, ""},
		{"{*.org,*.net}", "mx.net", true, "no patterns within"},
		{"x{,y}", "x", true, ""},
		{"{ab", "{ab", true, ""},
		{`a\*b`, "a*b", true, ""},
		{`a\*b`, "axb", false, ""},
		{`{a\,b,c}`, "a,b", true, ""},
		{`a\`, `a\`, true, ""},
		{"*.Toronto.EDU", "cs.toronto.edu", true, "upper case never matched"},
		{"SMTP", "smtp", true, "upper case never matched"},
		{"[A-C]", "b", true, "upper case never matched"},
		{"", "", true, ""},
		{"", "x", false, ""},
		{"x", "", false, ""},
	}
	for _, tt := range tests {
		if got := glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("glob(%q, %q) = %v, want %v (ZMailer: %q)", tt.pattern, tt.s, got, tt.want, tt.before)
		}
	}
}

// TestGlobIsQuick: a host that almost matches must not cost much, however
// many stars a pattern has.
func TestGlobIsQuick(t *testing.T) {
	if glob("*a*a*a*a*a*a*a*a*a*b", strings.Repeat("a", 250)) {
		t.Error("it has no b")
	}
}

// TestGlobAgainstRegexp compares with the regular expression that a pattern
// stands for.
func TestGlobAgainstRegexp(t *testing.T) {
	letter := rapid.SampledFrom([]string{"a", "b", "C", ".", "/", "1"})
	type both struct{ glob, expr string }
	literal := rapid.Map(letter, func(s string) both { return both{s, regexp.QuoteMeta(s)} })
	escaped := rapid.Map(rapid.SampledFrom([]string{"*", "?", "[", "{", "a"}), func(s string) both {
		return both{`\` + s, regexp.QuoteMeta(s)}
	})
	set := rapid.Map(rapid.SampledFrom([]string{"[ab]", "[^ab]", "[a-c]", "[^a-c.]"}), func(s string) both { return both{s, s} })
	simple := rapid.OneOf(literal, literal, escaped, set, rapid.SampledFrom([]both{{"*", ".*"}, {"?", "."}}))
	choice := rapid.Map(rapid.SliceOfN(simple, 1, 3), func(parts []both) both {
		var globs, exprs []string
		for _, p := range parts {
			globs, exprs = append(globs, p.glob), append(exprs, p.expr)
		}
		return both{"{" + strings.Join(globs, ",") + "}", "(?:" + strings.Join(exprs, "|") + ")"}
	})
	pattern := rapid.SliceOfN(rapid.OneOf(simple, simple, choice), 0, 6)
	text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "A", ".", "/", "1", "*", "[", "{"}), 0, 8)
	rapid.Check(t, func(t *rapid.T) {
		globs, exprs := "", ""
		for _, p := range pattern.Draw(t, "pattern") {
			globs, exprs = globs+p.glob, exprs+p.expr
		}
		s := strings.Join(text.Draw(t, "text"), "")
		want := regexp.MustCompile("(?is)^(?:" + exprs + ")$").MatchString(s)
		if got := glob(globs, s); got != want {
			t.Errorf("glob(%q, %q) = %v, want %v", globs, s, got, want)
		}
	})
}

// TestMatch: patterns in sequence, parameters picked up on the way, the first
// command ends it, */* never does (the manual, CONFIGURATION FILE).
func TestMatch(t *testing.T) {
	clause := func(pattern string, names ...string) Clause {
		c := Clause{}
		c.Channel, c.Host, _ = strings.Cut(pattern, "/")
		for _, name := range names {
			c.Settings = append(c.Settings, Setting{Name: name, Apply: func(*Params) {}})
		}
		return c
	}
	clauses := []Clause{
		clause("*/*", "interval", "command"),
		clause("smtp/*.org", "maxring"),
		clause("smtp/mx.*", "overfeed", "command"),
		clause("smtp/*", "command"),
		clause("*/mx.org", "command"),
		clause("local/*", "expiry"),
	}
	tests := []struct{ channel, host, want string }{
		{"smtp", "mx.org", "*/* smtp/*.org smtp/mx.*"},
		{"smtp", "a.org", "*/* smtp/*.org smtp/*"},
		{"smtp", "a.net", "*/* smtp/*"},
		{"uucp", "mx.org", "*/* */mx.org"},
		{"local", "-", "*/* local/*"},
		{"fax", "-", "*/*"},
	}
	for _, tt := range tests {
		var got []string
		for _, c := range match(clauses, tt.channel, tt.host) {
			got = append(got, c.Channel+"/"+c.Host)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s/%s: matched by %v, want %s", tt.channel, tt.host, got, tt.want)
		}
	}
}
