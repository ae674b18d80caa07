package scheduler

import "strings"

// match returns the clauses that speak for a channel and host, in order, as
// the manual has it: patterns are tried in sequence, what a matching clause
// sets is picked up, and the first one with a command ends the search. */*
// gives defaults and never ends it.
func match(clauses []Clause, channel, host string) []*Clause {
	var matched []*Clause
	for i := range clauses {
		c := &clauses[i]
		if !glob(c.Channel, channel) || !glob(c.Host, host) {
			continue
		}
		matched = append(matched, c)
		if c.sets("command") && !c.MatchesAll() {
			break
		}
	}
	return matched
}

// MatchesAll reports whether the clause is one for */*, which gives defaults to
// those behind it.
func (c *Clause) MatchesAll() bool { return c.Channel == "*" && c.Host == "*" }

func (c *Clause) sets(name string) bool {
	for i := range c.Settings {
		if c.Settings[i].Name == name {
			return true
		}
	}
	return false
}

// fold returns the parameters that the matched clauses leave in force.
func fold(defaults Params, matched []*Clause) *Params {
	p := defaults
	for _, c := range matched {
		for i := range c.Settings {
			c.Settings[i].Apply(&p)
		}
	}
	return &p
}

// glob matches a shell-style pattern without regard to case: ? is any one
// byte, * any string, [abc] [a-c] [^abc] [!abc] one byte of a set, {a,b} one
// of some patterns, and \ takes the next byte as it is. A bracket or brace
// that is not closed stands for itself.
func glob(pattern, s string) bool {
	return globFold(strings.ToLower(pattern), strings.ToLower(s))
}

// globFold tries each way that the braces can be read.
func globFold(pattern, s string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			if _, rest, ok := globSet(pattern[i:]); ok {
				i = len(pattern) - len(rest) - 1
			}
		case '{':
			choices, rest, ok := globChoices(pattern[i:])
			if !ok {
				continue
			}
			for _, choice := range choices {
				if globFold(pattern[:i]+choice+rest, s) {
					return true
				}
			}
			return false
		}
	}
	return globPlain(pattern, s)
}

// globPlain matches a pattern without braces. Hosts are named by strangers:
// only the last * before a mismatch is tried anew, so that the time is at most
// the product of the lengths.
func globPlain(pattern, s string) bool {
	p, i := 0, 0
	star, from := -1, 0 // behind the last *, and where its string may end
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, from = p, i
			continue
		}
		if width, ok := globByte(pattern[p:], s[i]); ok {
			p += width
			i++
			continue
		}
		if star < 0 {
			return false
		}
		from++
		p, i = star, from
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// globByte reports whether the front of the pattern stands for the byte, and
// how long that front is.
func globByte(pattern string, c byte) (width int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if set, rest, ok := globSet(pattern); ok {
			return len(pattern) - len(rest), set.has(c)
		}
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// byteSet is what stands between the brackets.
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

// globSet reads a set at the front of the pattern. A closing bracket right
// after the opening belongs to the set.
func globSet(pattern string) (set byteSet, rest string, ok bool) {
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

// globChoices reads the patterns between braces; braces may nest.
func globChoices(pattern string) (choices []string, rest string, ok bool) {
	depth, start := 0, 1
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 1 {
				choices = append(choices, pattern[start:i])
				start = i + 1
			}
		case '}':
			if depth--; depth == 0 {
				return append(choices, pattern[start:i]), pattern[i+1:], true
			}
		}
	}
	return nil, pattern, false
}
