// Package pattern matches names against patterns with wildcards.
//
// There are two kinds of pattern. A clause of scheduler.cf(5) has a Glob:
//
//	?        any one byte
//	*        any text, or none
//	[a-c]    one byte of a set; [^a-c] and [!a-c] one that is not in it
//	{x,y}    one of several patterns; braces may nest
//	\*       the byte after the backslash, as it is
//
// A query of mailq(1) has only * and ?, because addresses and diagnostics are
// full of brackets: see Wildcard.
//
// Both ignore case. The texts come from strangers, so matching takes time at most
// proportional to the product of the two lengths, for each combination of the
// alternatives in braces. The package is pure: it imports nothing but strings, so that
// the scheduler's core may use it.
package pattern

import "strings"

// Glob reports whether the whole of s matches a shell-style pattern. A bracket
// or brace that is not closed stands for itself.
func Glob(pattern, s string) bool {
	return pattern == "*" || pattern == s && !strings.ContainsAny(pattern, `[\{`) || globBraces(strings.ToLower(pattern), strings.ToLower(s))
}

// Unclosed returns the first bracket or brace of a Glob that is not closed.
func Unclosed(pattern string) (bracket string, found bool) {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			_, rest, ok := parseSet(pattern[i:])
			if !ok {
				return "[", true
			}
			i = len(pattern) - len(rest) - 1
		case '{':
			if _, _, ok := parseBraces(pattern[i:]); !ok {
				return "{", true
			}
		}
	}
	return "", false
}

// Wildcard reports whether the whole of s matches a pattern in which * is any
// text, ? is any one byte, and everything else stands for itself. Only the
// letters A to Z match regardless of case.
func Wildcard(pattern, s string) bool {
	return matchStars(pattern, s, func(pattern string, c byte) (int, bool) {
		return 1, pattern[0] == '?' || lower(pattern[0]) == lower(c)
	})
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// matchStars matches a pattern in which * is any text. matchByte reports
// whether the start of a pattern, which is not empty, matches one byte, and how
// many bytes of the pattern that takes.
//
// After a mismatch only the last * is tried with a longer text. That is enough: a
// longer text for an earlier * would only leave less for the rest of the pattern.
func matchStars(pattern, s string, matchByte func(pattern string, c byte) (width int, ok bool)) bool {
	p, i := 0, 0
	star, starEnd := -1, 0 // the index after the last *, and where its text ends in s
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, starEnd = p, i
			continue
		}
		if p < len(pattern) {
			if width, ok := matchByte(pattern[p:], s[i]); ok {
				p += width
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		starEnd++
		p, i = star, starEnd
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// globBraces replaces the first pair of braces with each of its alternatives in turn,
// until no braces are left.
func globBraces(pattern, s string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			if _, rest, ok := parseSet(pattern[i:]); ok {
				i = len(pattern) - len(rest) - 1
			}
		case '{':
			alternatives, rest, ok := parseBraces(pattern[i:])
			if !ok {
				continue
			}
			for _, alternative := range alternatives {
				if globBraces(pattern[:i]+alternative+rest, s) {
					return true
				}
			}
			return false
		}
	}
	return matchStars(pattern, s, globByte)
}

// globByte matches one byte with the start of a pattern without braces.
func globByte(pattern string, c byte) (width int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if set, rest, ok := parseSet(pattern); ok {
			return len(pattern) - len(rest), set.has(c)
		}
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// byteSet is the text between two brackets.
type byteSet struct {
	members string
	negated bool
}

func (b byteSet) has(c byte) bool {
	in := false
	for i := 0; i < len(b.members); i++ {
		low, high := b.members[i], b.members[i]
		if i+2 < len(b.members) && b.members[i+1] == '-' {
			high = b.members[i+2]
			i += 2
		}
		in = in || low <= c && c <= high
	}
	return in != b.negated
}

// parseSet reads the set at the start of a pattern. A closing bracket right
// after the opening one belongs to the set.
func parseSet(pattern string) (set byteSet, rest string, ok bool) {
	body := pattern[1:]
	if body != "" && (body[0] == '^' || body[0] == '!') {
		set.negated = true
		body = body[1:]
	}
	end := strings.IndexByte(strings.TrimPrefix(body, "]"), ']')
	if end < 0 {
		return set, pattern, false
	}
	end += len(body) - len(strings.TrimPrefix(body, "]"))
	set.members = body[:end]
	return set, body[end+1:], true
}

// parseBraces reads the alternatives between the braces at the start of a
// pattern.
func parseBraces(pattern string) (alternatives []string, rest string, ok bool) {
	depth, start := 0, 1
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 1 {
				alternatives = append(alternatives, pattern[start:i])
				start = i + 1
			}
		case '}':
			if depth--; depth == 0 {
				return append(alternatives, pattern[start:i]), pattern[i+1:], true
			}
		}
	}
	return nil, pattern, false
}
