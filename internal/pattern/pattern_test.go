package pattern

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
		if got := Glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Glob(%q, %q) = %v, want %v (ZMailer: %q)", tt.pattern, tt.s, got, tt.want, tt.before)
		}
	}
}

// TestGlobIsQuick: a host that almost matches must not cost much, however
// many stars a pattern has.
func TestGlobIsQuick(t *testing.T) {
	if Glob("*a*a*a*a*a*a*a*a*a*b", strings.Repeat("a", 250)) {
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
		if got := Glob(globs, s); got != want {
			t.Errorf("Glob(%q, %q) = %v, want %v", globs, s, got, want)
		}
	})
}

func TestUnclosed(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "", "*.org": "", "[a-z]": "", "[]a]": "", "{a,b}": "", `\[a`: "", `a\`: "", "a]}": "",
		"[a-z": "[", "mx[1.org": "[", "{a,b": "{", "{a,[b}": "[", "[{]": "", "{a,{b}": "{",
	} {
		if got, found := Unclosed(pattern); got != want || found != (want != "") {
			t.Errorf("Unclosed(%q) = %q, %v, want %q", pattern, got, found, want)
		}
	}
}

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "", false}, {"*", "", true}, {"**", "ab", true}, {"a*c", "abbc", true},
		{"a*c", "ac", true}, {"a*c", "abbcd", false}, {"A?C", "abc", true}, {"a?c", "ac", false}, {"?", "", false},
		{"?a", "ba", true}, {"a?", "a", false}, {"a*?", "a", false}, {"A", "a", true}, {"ä", "Ä", false},
		{"*a*b*", "xxaxxbxx", true}, {"*a*b", "ab b", true}, {"*a*b", "aab", true}, {"*a*b", "ba", false},
		{"*ab", "aaab", true}, {"*.com", "a.comm", false}, {"*@b.*", "x@y@b.c", true},
		{"[a]", "a", false}, {"[a]", "[A]", true},
	} {
		if got := Wildcard(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Wildcard(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
	// A pattern like this takes exponential time when every * is tried again.
	if Wildcard(strings.Repeat("*a", 5000)+"b", strings.Repeat("a", 10000)) {
		t.Error("matched")
	}
}

// FuzzWildcard: Wildcard agrees with the plainest way to do it.
func FuzzWildcard(f *testing.F) {
	f.Add("*a?b*", "xaxbx")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 12 || len(s) > 24 {
			return
		}
		if got, want := Wildcard(pattern, s), plainWildcard(pattern, s); got != want {
			t.Errorf("Wildcard(%q, %q) = %v", pattern, s, got)
		}
	})
}

func plainWildcard(p, s string) bool {
	switch {
	case p == "":
		return s == ""
	case p[0] == '*':
		return plainWildcard(p[1:], s) || s != "" && plainWildcard(p, s[1:])
	case s == "":
		return false
	}
	return (p[0] == '?' || lower(p[0]) == lower(s[0])) && plainWildcard(p[1:], s[1:])
}
