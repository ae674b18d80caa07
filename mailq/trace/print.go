package trace

// Printing: what happened to each message, in lines for people.

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/text"
	"zsched/mailq"
)

// PrintJSON prints the lines of the log as they are.
func PrintJSON(out io.Writer, events []*Event) error {
	w := bufio.NewWriter(out)
	for _, e := range events {
		w.Write(e.raw)
		w.WriteByte('\n')
	}
	return w.Flush()
}

// history is what the events say about one message.
type history struct {
	id, messageID, sender string
	lines                 []string
	destinations          map[[2]string]bool // channels and hosts of its recipients
	outcomes              map[string]bool    // recipients that are done
	suspended             *Event             // the event of the last line if it is a suspension, else nil
	over                  bool               // it has left the queue
}

// Print prints what happened to each message, in the order in which the messages
// first appear in the events. Times are in the given time zone.
func Print(out io.Writer, events []*Event, zone *time.Location) error {
	var histories []*history
	byID := make(map[string]*history)
	var files []string // lines about files that did not become messages
	for _, e := range events {
		switch l := byID[e.SpoolID]; {
		case e.SpoolID == "" && e.File != "":
			files = append(files, line(e, zone))
		case e.SpoolID == "": // about a thread
			for _, l := range histories {
				if !l.over && l.destinations[[2]string{e.Channel, e.Host}] {
					l.add(e, line(e, zone))
				}
			}
		case l == nil:
			l = &history{id: e.SpoolID, destinations: make(map[[2]string]bool), outcomes: make(map[string]bool)}
			byID[e.SpoolID] = l
			histories = append(histories, l)
			l.add(e, line(e, zone))
		default:
			l.add(e, line(e, zone))
		}
	}
	w := bufio.NewWriter(out)
	for _, text := range files {
		fmt.Fprintln(w, text)
	}
	for i, l := range histories {
		if i > 0 || len(files) > 0 {
			fmt.Fprintln(w)
		}
		l.print(w)
	}
	return w.Flush()
}

// add adds the line of an event.
func (l *history) add(e *Event, text string) {
	if e.MessageID != "" {
		l.messageID = e.MessageID
	}
	if e.Sender != "" {
		l.sender = e.Sender
	}
	// Each start of the scheduler writes the recipients that are done again.
	if e.Event == "done" && l.outcomes[e.Recipient] {
		return
	}
	if e.Event == "done" || e.Event == "kill" || e.Event == "expiry" || e.Event == "attempt" && e.Class != 4 {
		l.outcomes[e.Recipient] = true
	}
	// The suspension that an attempt causes comes just before it in the log and
	// says nothing new: the attempt has the time of the next one.
	if e.Event == "attempt" && l.suspended != nil && l.suspended.Time.Equal(e.Time) {
		l.lines = l.lines[:len(l.lines)-1]
	}
	l.lines = append(l.lines, text)
	l.suspended = nil
	if e.Event == "suspended" {
		l.suspended = e
	}
	if e.SpoolID != "" {
		l.over = ends(e)
	}
	if e.Event == "arrival" {
		l.destinations[[2]string{e.Channel, e.Host}] = true
	}
}

func (l *history) print(w io.Writer) {
	head := []string{l.id}
	if l.messageID != "" {
		head = append(head, l.messageID)
	}
	if l.sender != "" {
		head = append(head, "from "+l.sender)
	}
	fmt.Fprintln(w, text.Escape(strings.Join(head, " ")))
	for _, s := range l.lines {
		fmt.Fprintln(w, "  "+s)
	}
	if !l.over {
		fmt.Fprintln(w, "  (not done yet, as far as the log shows)")
	}
}

// line returns the line for one event.
func line(e *Event, zone *time.Location) string {
	return e.Time.In(zone).Format("2006-01-02 15:04:05.000") + "  " + text.Escape(e.words(zone))
}

// sentences describe the events whose words are always the same. {to} is the channel and host,
// {by} who ordered it and why.
var sentences = map[string]string{
	"kill":        "{recipient}: dropped without a notice",
	"resubmitted": "{count} sent elsewhere, now {new}",
	"undone":      "{order} failed, in the queue as before: {text}",
	"release":     "mail for {to} is no longer held{by}",
	"blocked":     "its mail for {to} waits as an alternative",
	"rule":        "the reply rule of {text} applies to its mail for {to}",
	"lift":        "what reply rules do to {to} is lifted{by}",
	"owed":        "a notice is owed to the sender",
	"quarantined": "{file} is not understood and is in corrupt/: {text}",
	"refused":     "{file} cannot be read now ({status}): {text}",
	"notice":      "a notice to the sender was written, {new}",
	"gone":        "dropped: its control file has disappeared",
	"hold":        "held",
	// Of a thread.
	"thread hold":    "mail for {to} is held{by}",
	"thread blocked": "mail for {to} waits: no clause gives a command",
}

// words describes an event in words, without its time.
func (e *Event) words(zone *time.Location) string {
	to, name := e.Channel+"/"+e.Host, e.Event
	if e.SpoolID == "" && sentences["thread "+name] != "" {
		name = "thread " + name
	}
	if sentence := sentences[name]; sentence != "" {
		return strings.NewReplacer("{to}", to, "{by}", e.orderedBy(), "{recipient}", e.Recipient, "{new}", e.New, "{order}", e.Order,
			"{text}", e.Text, "{file}", e.File, "{status}", e.Status,
			"{count}", mailq.Plural(e.Recipients, "recipient", "recipients")).Replace(sentence)
	}
	switch name {
	case "arrival":
		return e.arrivalWords()
	case "attempt", "expiry":
		return e.attemptWords(zone)
	case "done":
		return e.doneWords()
	case "order":
		words := e.Order + " by " + e.By
		if e.To != "" {
			words += ", to " + e.To
		}
		if e.Because != "" {
			words += ": " + e.Because
		}
		if e.New != "" {
			words += "; now " + e.New
		}
		return words
	case "suspended":
		words := "mail for " + to + " is suspended"
		if !e.Next.IsZero() {
			words += " until " + clock(e.Next, e.Time, zone)
		}
		return words
	case "end":
		return "done, " + e.counts()
	}
	return strings.TrimSpace(strings.Join([]string{e.Event, e.Status, e.File, e.Text}, " "))
}

// orderedBy says who ordered something and why, if that is known.
func (e *Event) orderedBy() (text string) {
	if e.By != "" {
		text = ", by " + e.By
	}
	if e.Because != "" {
		text += ": " + e.Because
	}
	return text
}

func (e *Event) arrivalWords() string {
	text := "arrived"
	switch e.Text {
	case "released":
		text = "released"
	case "found at the start":
		text = "found in the queue at the start"
	}
	if e.Recipient == "" {
		return text + " without open recipients"
	}
	to := e.Recipient
	if e.Original != "" {
		to += ", originally " + strings.TrimSuffix(e.Original+", "+e.Alias, ", ") + ","
	}
	return fmt.Sprintf("%s for %s (%s/%s), %s", text, to, e.Channel, e.Host, mailq.Plural(e.Size, "byte", "bytes"))
}

// doneWords describes a recipient that was done when its control file was read.
func (e *Event) doneWords() string {
	text := e.Recipient + ": was done already, as its tag + says"
	switch {
	case e.Status == "-":
		text = e.Recipient + ": had failed already, as its tag - says"
	case e.Channel == ctlfile.TransferChannel:
		text = e.Recipient + ": was moved to node " + e.Host + " already, as its tag + says"
	}
	if said := e.said(); said != "" {
		text += ": " + said
	}
	return text
}

func (e *Event) attemptWords(zone *time.Location) string {
	words := map[string]string{"ok": "delivered", "ok2": "delivered", "ok3": "delivered", "error": "failed", "error2": "failed", "expire": "given up", "deferred": "deferred"}
	text := e.Recipient + ": " + words[e.Status]
	// The agent of that channel takes mail to another node, which delivers it.
	moved := e.Channel == ctlfile.TransferChannel && words[e.Status] == "delivered"
	if moved {
		text = e.Recipient + ": moved to node " + e.Host
	}
	if e.Attempts > 1 && e.Status != "expire" {
		text += fmt.Sprintf(" at attempt %d", e.Attempts)
	}
	switch {
	case moved:
	case e.Peer != "":
		text += " by " + e.Peer
	default:
		text += " for " + e.Channel + "/" + e.Host
	}
	if e.PID != 0 {
		program, _, _ := strings.Cut(e.Command, " ")
		text += fmt.Sprintf(" (%s[%d])", program, e.PID)
	}
	if said := e.said(); said != "" && !moved {
		text += ": " + said
	}
	if !e.Next.IsZero() {
		text += "; next try " + clock(e.Next, e.Time, zone)
	}
	return text
}

// said returns the reply of the other side with its status code.
func (e *Event) said() string {
	if e.DSN != "" && !strings.Contains(e.Text, e.DSN) {
		return strings.TrimSpace(e.DSN + " " + e.Text)
	}
	return e.Text
}

func (e *Event) counts() string {
	text := mailq.Plural(e.Recipients, "recipient", "recipients")
	if e.Failed > 0 {
		text += fmt.Sprintf(", %d failed", e.Failed)
	}
	if e.Delay > 0 {
		text += ", after " + mailq.FormatSpan(time.Duration(e.Delay*float64(time.Second)))
	}
	return text
}

// clock returns a time, with its date if that is another day.
func clock(at, now time.Time, zone *time.Location) string {
	at, now = at.In(zone), now.In(zone)
	if at.Year() == now.Year() && at.YearDay() == now.YearDay() {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}
