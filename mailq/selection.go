package mailq

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/internal/interval"
	"zsched/internal/pattern"
)

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
	d, err := interval.Parse(value)
	if err == nil && d == 0 {
		err = errors.New("must be more than zero")
	}
	if err != nil {
		return 0, fmt.Errorf("%s=%q: %w", key, value, err)
	}
	return d, nil
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
		words = append(words, "older="+interval.Format(sel.Older))
	}
	if sel.Younger > 0 {
		words = append(words, "younger="+interval.Format(sel.Younger))
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
		if pattern.Wildcard(sel.Reason, job.Recipients[i].Reason) {
			return true
		}
	}
	return false
}

func fits(wanted, s string) bool { return wanted == "" || pattern.Wildcard(wanted, s) }
