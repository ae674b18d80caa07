package mailq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxSpan is longer than any mail waits, and a third of what a time.Duration
// can hold.
const maxSpan = 36500 * 24 * time.Hour

// parseSpan reads a sum of numbers with the units d, h, m and s: 3d, 1h30m.
// A last number without one counts seconds.
func ParseSpan(s string) (time.Duration, error) {
	if s == "" {
		return 0, errors.New("a span is needed, such as 3d or 1h30m")
	}
	var sum time.Duration
	for rest := s; rest != ""; {
		after := strings.TrimLeft(rest, "0123456789")
		n, err := strconv.ParseInt(rest[:len(rest)-len(after)], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is no span such as 3d or 1h30m", s)
		}
		unit := time.Second
		if after != "" {
			switch after[0] {
			case 'd':
				unit = 24 * time.Hour
			case 'h':
				unit = time.Hour
			case 'm':
				unit = time.Minute
			case 's':
			default:
				return 0, fmt.Errorf("%q is no span such as 3d or 1h30m", s)
			}
			after = after[1:]
		}
		if n > int64(maxSpan/unit) || sum+time.Duration(n)*unit > maxSpan {
			return 0, fmt.Errorf("%q is longer than a hundred years", s)
		}
		sum += time.Duration(n) * unit
		rest = after
	}
	return sum, nil
}

// formatSpan writes what parseSpan reads, in whole seconds.
func formatSpan(d time.Duration) string {
	s := int64(d / time.Second)
	var b []byte
	for _, u := range [...]struct {
		seconds int64
		letter  byte
	}{{86400, 'd'}, {3600, 'h'}, {60, 'm'}} {
		if n := s / u.seconds; n > 0 {
			b = append(strconv.AppendInt(b, n, 10), u.letter)
			s %= u.seconds
		}
	}
	if s > 0 || len(b) == 0 {
		b = append(strconv.AppendInt(b, s, 10), 's')
	}
	return string(b)
}

// ParseSelection reads key=value words, as they stand behind WHERE: the keys
// channel, host, sender, reason, older and younger, one at least and each
// once.
func ParseSelection(s string) (Selection, error) {
	sel, rest, err := cutSelection(s)
	if err == nil && rest != "" {
		word, _ := CutRaw(rest)
		err = fmt.Errorf("%q is no key=value", word)
	}
	return sel, err
}

// cutSelection reads key=value words up to the first word without "=".
func cutSelection(s string) (Selection, string, error) {
	var sel Selection
	seen := make(map[string]bool)
	for s = TrimBlanks(s); s != ""; {
		raw, _ := CutRaw(s)
		key, _, is := strings.Cut(raw, "=")
		if !is {
			break
		}
		if seen[key] {
			return sel, "", fmt.Errorf("%s= stands there twice", key)
		}
		seen[key] = true
		s = s[len(key)+1:]
		var value string
		if s != "" && !isBlank(s[0]) {
			var err error
			if value, s, _, err = CutWord(s); err != nil {
				return sel, "", err
			}
		}
		if value == "" {
			return sel, "", fmt.Errorf("%s= needs a value", key)
		}
		if err := sel.set(key, value); err != nil {
			return sel, "", err
		}
	}
	if len(seen) == 0 {
		return sel, "", errors.New("a selection needs one key=value at least; the keys are channel, host, sender, reason, older and younger")
	}
	return sel, s, nil
}

func (sel *Selection) set(key, value string) (err error) {
	switch key {
	case "channel":
		sel.Channel = value
	case "host":
		sel.Host = value
	case "sender":
		sel.Sender = value
	case "reason":
		sel.Reason = value
	case "older":
		sel.Older, err = positiveSpan(key, value)
	case "younger":
		sel.Younger, err = positiveSpan(key, value)
	default:
		err = fmt.Errorf("unknown key %q; the keys are channel, host, sender, reason, older and younger", key)
	}
	return err
}

func positiveSpan(key, value string) (time.Duration, error) {
	d, err := ParseSpan(value)
	if err == nil && d == 0 {
		err = fmt.Errorf("%s= must be more than zero", key)
	}
	return d, err
}

// String writes the selection as ParseSelection reads it.
func (sel *Selection) String() string {
	var words []string
	for _, p := range [...]struct{ key, value string }{
		{"channel", sel.Channel}, {"host", sel.Host}, {"sender", sel.Sender}, {"reason", sel.Reason},
	} {
		if p.value != "" {
			words = append(words, p.key+"="+Quote(p.value))
		}
	}
	if sel.Older > 0 {
		words = append(words, "older="+formatSpan(sel.Older))
	}
	if sel.Younger > 0 {
		words = append(words, "younger="+formatSpan(sel.Younger))
	}
	return strings.Join(words, " ")
}

// Matches says whether a job is selected at a time; its reason is that of any
// of its recipients. The Queue may use it, or do better.
func (sel *Selection) Matches(job *Job, now time.Time) bool {
	age := now.Sub(job.ArrivedAt)
	if sel.Older > 0 && age < sel.Older || sel.Younger > 0 && age >= sel.Younger {
		return false
	}
	if !fits(sel.Channel, job.Channel) || !fits(sel.Host, job.Host) {
		return false
	}
	if sel.Sender == "<>" {
		if job.Sender != "" {
			return false
		}
	} else if !fits(sel.Sender, job.Sender) {
		return false
	}
	if sel.Reason == "" {
		return true
	}
	for i := range job.Recipients {
		if Like(sel.Reason, job.Recipients[i].Reason) {
			return true
		}
	}
	return false
}

func fits(pattern, s string) bool { return pattern == "" || Like(pattern, s) }

// Like says whether the whole of s fits a pattern: * is any text, ? one byte,
// the rest stands for itself, and A to Z are as a to z.
func Like(pattern, s string) bool {
	p, i := 0, 0
	star, from := -1, 0 // the last *, and where what it covers ends
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || lower(pattern[p]) == lower(s[i])):
			p++
			i++
		case star >= 0:
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
