package rule

import (
	"slices"
	"strconv"
	"strings"
)

// Expansion of the command of a clause: $channel, $host, ${sessions}.

// Expand puts values into the words of a command (scheduler.cf(5), command):
// $channel, $host and ${sessions}, with or without braces, and names of
// zmailer.conf. An unknown name in braces expands to nothing; without braces it
// stays as it is, and so does a brace that is not closed. A value with spaces
// stays within its word.
func Expand(words []string, env map[string]string, channel, host string, sessions int) []string {
	lookup := func(name string) (string, bool) {
		switch name {
		case "channel":
			return channel, true
		case "host":
			return host, true
		case "sessions":
			return strconv.Itoa(max(1, sessions)), true
		}
		value, ok := env[name]
		return value, ok
	}
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = expandWord(word, lookup)
	}
	return out
}

func expandWord(word string, lookup func(string) (string, bool)) string {
	if !strings.Contains(word, "$") {
		return word
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(word, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if name, after, ok := strings.Cut(strings.TrimPrefix(rest, "{"), "}"); ok && strings.HasPrefix(rest, "{") {
			value, _ := lookup(name)
			b.WriteString(value)
			word = after
			continue
		}
		name := identifier(rest)
		if value, ok := lookup(name); ok && name != "" {
			b.WriteString(value)
			word = rest[len(name):]
			continue
		}
		b.WriteByte('$')
		word = rest
	}
}

// identifier returns the longest name at the start of s.
func identifier(s string) string {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return s[:i]
		}
	}
	return s
}

// NamesHostIn reports whether the word may expand differently for each host.
func NamesHostIn(word string) bool { return strings.Contains(word, "host") }

// NamesHost reports whether the command has the bare word $host. Job lines then
// leave out the host (scheduler(8), ta(7)).
func NamesHost(words []string) bool {
	return slices.Contains(words, "$host")
}
