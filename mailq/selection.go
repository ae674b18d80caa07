package mailq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/internal/interval"
	"zsched/internal/pattern"
)

// Selection picks the jobs that an order is about: the key=value words after
// WHERE. A job matches if it matches every field that is set.
type Selection struct {
	Channel, Host  string        // patterns with * and ?
	Sender         string        // pattern; "<>" is the null sender
	Reason         string        // pattern, of the last diagnostic
	Older, Younger time.Duration // age of the message
}

const selectionKeys = "channel, host, sender, reason, older and younger"

// ParseSelection reads key=value words. There must be at least one; each of the
// keys channel, host, sender, reason, older and younger may be given once.
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
		key, _, isKey := strings.Cut(raw, "=")
		if !isKey {
			break
		}
		if seen[key] {
			return sel, "", fmt.Errorf("%s= is given twice", key)
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
		return sel, "", errors.New("a selection needs at least one key=value; the keys are " + selectionKeys)
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
		sel.Older, err = parseAge(key, value)
	case "younger":
		sel.Younger, err = parseAge(key, value)
	default:
		err = fmt.Errorf("unknown key %q; the keys are %s", key, selectionKeys)
	}
	return err
}

func parseAge(key, value string) (time.Duration, error) {
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

// Matches reports whether a job is selected at the time now. A reason matches
// if that of any recipient of the job does.
func (sel *Selection) Matches(job *Job, now time.Time) bool {
	age := now.Sub(job.ArrivedAt)
	if sel.Older > 0 && age < sel.Older || sel.Younger > 0 && age >= sel.Younger {
		return false
	}
	matches := func(wanted, s string) bool { return wanted == "" || pattern.Wildcard(wanted, s) }
	if !matches(sel.Channel, job.Channel) || !matches(sel.Host, job.Host) {
		return false
	}
	if sel.Sender == "<>" && job.Sender != "" || sel.Sender != "<>" && !matches(sel.Sender, job.Sender) {
		return false
	}
	return sel.Reason == "" ||
		slices.ContainsFunc(job.Recipients, func(r Recipient) bool { return matches(sel.Reason, r.Reason) })
}
