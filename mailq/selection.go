package mailq

// Selections: the conditions (key=value) that say which mail is meant.

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"zsched/ctlfile"
	"zsched/internal/pattern"
	"zsched/internal/units"
	"zsched/scheduler/view"
)

// Selection picks the jobs that an order is about: the key=value words after
// WHERE. A job matches if it matches every field that is set; the threads are
// alternatives of each other, and so are the messages.
type Selection struct {
	Threads        []Name        // names, not patterns; none: any thread
	Messages       []string      // spoolids, numbers or paths; none: any message
	Channel, Host  string        // patterns with * and ?
	Sender         string        // pattern; "<>" is the null sender
	Source         string        // who takes turns, such as login:bob; in either case
	Recipient      string        // pattern, of any recipient's address
	MessageID      string        // pattern, with or without angle brackets
	State          string        // one of JobStates
	Reason         string        // pattern, of the last diagnostic
	Older, Younger time.Duration // age of the message
}

const selectionKeys = "thread, msg, channel, host, sender, source, recipient, message-id, state, reason, older and younger"

// JobStates are the states that a selection knows. Held is all mail that is kept
// back by a HOLD: held messages and the mail of held threads. Unloaded is mail whose control
// files could not be loaded yet.
var JobStates = append(view.States[:], StateUnloaded)

// StateUnloaded is that of a message in transport/ that is not loaded. Each of its
// recipients has the reason.
const StateUnloaded = "unloaded"

// ParseSelection reads key=value words. There must be at least one, and each key
// may be given once, except for thread and msg.
func ParseSelection(s string) (Selection, error) {
	sel, rest, err := cutSelection(s)
	if err == nil && rest != "" {
		word, _ := CutRaw(rest)
		err = fmt.Errorf("%q is not a key=value pair", word)
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
		if seen[key] && key != "thread" && key != "msg" {
			return sel, "", fmt.Errorf("%s= is given twice", key)
		}
		seen[key] = true
		s = s[len(key)+1:]
		var value string
		if s != "" && s[0] != ' ' && s[0] != '\t' {
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
	case "thread":
		err = sel.addThread(value)
	case "msg":
		sel.Messages = append(sel.Messages, value)
	case "channel":
		sel.Channel = value
	case "host":
		sel.Host = value
	case "sender":
		sel.Sender = value
	case "source":
		sel.Source = value
	case "recipient":
		sel.Recipient = value
	case "message-id":
		sel.MessageID = value
	case "state":
		sel.State = strings.ToLower(value)
		if !slices.Contains(JobStates, sel.State) {
			err = fmt.Errorf("state=%q is not one of %s", value, strings.Join(JobStates, ", "))
		}
	case "reason":
		sel.Reason = value
	case "older":
		sel.Older, err = ParseSpan(key, value)
	case "younger":
		sel.Younger, err = ParseSpan(key, value)
	default:
		err = fmt.Errorf("unknown key %q; the keys are %s", key, selectionKeys)
	}
	return err
}

// addThread adds a thread, written as channel/host.
func (sel *Selection) addThread(value string) error {
	name, err := ParseName(value)
	if err != nil {
		return fmt.Errorf("thread=%w", err)
	}
	if strings.ContainsAny(value, "*?") {
		return fmt.Errorf("thread=%q must be one name, not a pattern; use channel= and host=", value)
	}
	sel.Threads = append(sel.Threads, name)
	return nil
}

// ParseSpan reads a span above zero, such as 3d or 1h30m. key is for the error.
func ParseSpan(key, value string) (time.Duration, error) {
	d, err := units.ParseInterval(value)
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
	for _, name := range sel.Threads {
		words = append(words, "thread="+Quote(name.Channel+"/"+name.Host))
	}
	for _, id := range sel.Messages {
		words = append(words, "msg="+Quote(id))
	}
	for _, p := range [...]struct{ key, value string }{
		{"channel", sel.Channel}, {"host", sel.Host}, {"sender", sel.Sender}, {"source", sel.Source},
		{"recipient", sel.Recipient}, {"message-id", sel.MessageID}, {"state", sel.State}, {"reason", sel.Reason},
	} {
		if p.value != "" {
			words = append(words, p.key+"="+Quote(p.value))
		}
	}
	if sel.Older > 0 {
		words = append(words, "older="+units.FormatInterval(sel.Older))
	}
	if sel.Younger > 0 {
		words = append(words, "younger="+units.FormatInterval(sel.Younger))
	}
	return strings.Join(words, " ")
}

// NeedsFile reports whether the control file must be read to decide. Then both Matches and
// MatchesFile must be true.
func (sel *Selection) NeedsFile() bool { return sel.Recipient != "" || sel.MessageID != "" }

// MatchesFile reports whether a job is selected by what its control file says: the
// addresses of its recipients and its Message-Id.
func (sel *Selection) MatchesFile(job *JobLine) bool {
	if sel.MessageID != "" && !pattern.Wildcard(ctlfile.Unbracketed(sel.MessageID), ctlfile.Unbracketed(job.MessageID)) {
		return false
	}
	return sel.Recipient == "" || slices.ContainsFunc(job.Recipients, func(r Recipient) bool { return sel.MatchesAddress(&r) })
}

// MatchesAddress reports whether the address of a recipient, which must be set, is
// selected.
func (sel *Selection) MatchesAddress(r *Recipient) bool {
	return sel.Recipient == "" || pattern.Wildcard(ctlfile.Unbracketed(sel.Recipient), ctlfile.Unbracketed(r.User))
}

// MatchesReason reports whether a recipient of a job is selected by its reason, or by
// the last diagnostic if agents do not start: by the last reply as lists show it, or by
// its kind as SHOW COUNT reason has it. NotTried selects a recipient without a reason.
func (sel *Selection) MatchesReason(job *JobLine, r *Recipient) bool {
	if sel.Reason == "" {
		return true
	}
	reason := ReasonOf(job, r)
	return reason == "" && sel.Reason == NotTried || sel.matchesReason(reason) || r.Reason != reason && sel.matchesReason(r.Reason)
}

func (sel *Selection) matchesReason(reason string) bool {
	reply := LastReply(reason)
	if pattern.Wildcard(sel.Reason, reply) {
		return true
	}
	// Without "...", a kind that has not been cut is the reply itself.
	mayBeKind := strings.Contains(sel.Reason, "...") || len(sel.Reason) > maxReasonKind-utf8.UTFMax
	return mayBeKind && pattern.Wildcard(sel.Reason, ReasonKind(reply))
}

// SelectsRecipients reports whether a selection can be about some of the recipients of a
// job.
func (sel *Selection) SelectsRecipients() bool { return sel.Recipient != "" || sel.Reason != "" }

// Matches reports whether a job is selected at the time now by what the
// scheduler keeps in memory. Reason matches if the reason of any
// recipient of the job matches.
func (sel *Selection) Matches(job *JobLine, now time.Time) bool {
	if sel.State == view.Held && !job.Held || sel.State != view.Held && sel.State != "" && sel.State != job.State {
		return false
	}
	if !sel.matchesThread(job.Name) || !sel.matchesMessage(job) {
		return false
	}
	age := now.Sub(job.ArrivedAt)
	if sel.Older > 0 && age < sel.Older || sel.Younger > 0 && age >= sel.Younger {
		return false
	}
	matches := func(wanted, s string) bool { return wanted == "" || pattern.Wildcard(wanted, s) }
	if !matches(sel.Channel, job.Channel) || !matches(sel.Host, job.Host) {
		return false
	}
	if sel.Source != "" && !strings.EqualFold(sel.Source, job.Source) {
		return false
	}
	if sel.Sender == "<>" && job.Sender != "" || sel.Sender != "<>" && !matches(sel.Sender, job.Sender) {
		return false
	}
	return sel.Reason == "" || slices.ContainsFunc(job.Recipients, func(r Recipient) bool { return sel.MatchesReason(job, &r) })
}

// matchesThread reports whether a thread is one of those selected.
func (sel *Selection) matchesThread(name Name) bool {
	return len(sel.Threads) == 0 || slices.ContainsFunc(sel.Threads, func(n Name) bool {
		return strings.EqualFold(n.Channel, name.Channel) && strings.EqualFold(n.Host, name.Host)
	})
}

// matchesMessage reports whether the message of a job is one of those selected.
func (sel *Selection) matchesMessage(job *JobLine) bool {
	return len(sel.Messages) == 0 || slices.ContainsFunc(sel.Messages, func(id string) bool {
		return id == job.SpoolID || id == job.Path || path.Base(id) == strconv.FormatUint(uint64(job.Message), 10)
	})
}
