package client

// Printing lists, reports and JSON.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/internal/text"
	"zsched/internal/units"
	"zsched/mailq"
)

// Printer prints lists, reports and JSON (mailq(1)). Out and Now must be set; the
// caller buffers Out.
type Printer struct {
	Out io.Writer
	Now time.Time
	// Terminal says that Out is a terminal. Then the CRs between the lines of a
	// diagnostic are shown as ^M. In either case no other control character from
	// the network is written.
	Terminal bool
	// Verbose adds Message-Id, sender, recipients and diagnostics of each message.
	Verbose bool
	// Summary prints the number of messages of each thread instead of a list.
	Summary bool
	// Spool is where control files are read; nil: none are read.
	Spool *Postoffice
	// Owner is the user whose messages are printed; nil: all are.
	Owner *int
	// Threads has what is known about the threads; nil: nothing is.
	Threads map[mailq.Name]*mailq.Thread

	thread  mailq.Name
	file    *SpoolFile // of the message being printed; nil: it cannot be read
	files   int        // of the thread
	headed  bool       // the thread's heading is printed
	printed bool       // anything is printed
	err     error      // the first error of Out
}

// printf writes, unless a write has failed before.
func (p *Printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.Out, format, args...)
		p.printed = true
	}
}

// safe returns a text from the network as it is written to Out.
func (p *Printer) safe(s string) string {
	if p.Terminal {
		return text.Escape(s)
	}
	return text.EscapeExcept(s, "\t\r")
}

// beginThread begins a thread. With Owner, its heading is printed with the first
// message.
func (p *Printer) beginThread(name mailq.Name) {
	p.endThread()
	p.thread, p.headed, p.files = name, false, 0
	if p.Owner == nil {
		p.heading()
	}
}

// heading prints the name of the thread, once.
func (p *Printer) heading() {
	if p.headed {
		return
	}
	p.headed = true
	line := p.safe(p.thread.Channel+"/"+p.thread.Host) + ":"
	if t := p.Threads[p.thread]; t != nil {
		line += p.safe(p.threadText(t))
	}
	p.printf("%s\n", line)
}

// threadText is what stands in the heading of a thread: its state, its sessions if it has any, what
// affects it, and why its mail is in the queue.
func (p *Printer) threadText(t *mailq.Thread) string {
	var facts []string
	if state := mailq.StateText(t, p.Now); state != "" {
		facts = append(facts, state)
	}
	if window := mailq.WindowText(t); window != "" && (p.Verbose || t.Sessions > 0) {
		facts = append(facts, window)
	}
	if p.Verbose && t.Site != "" {
		facts = append(facts, "site "+t.Site)
	}
	text := ""
	if facts != nil {
		text = " " + strings.Join(facts, ", ")
	}
	for i := range t.Effects {
		text += " [" + mailq.EffectText(&t.Effects[i], p.Now) + "]"
	}
	if reply := mailq.LastReply(mailq.LastReason(t)); reply != "" {
		text += ": " + reply
	}
	return text
}

// endThread prints the summary of a thread.
func (p *Printer) endThread() {
	if p.headed && p.Summary {
		p.printf("\t  %s\n", units.Plural(p.files, "file", "files"))
	}
}

// Finish ends the list and returns the first error of Out. It says that a list
// is empty where ZMailer's client does.
func (p *Printer) Finish() error {
	p.endThread()
	if !p.printed && p.Owner != nil {
		p.printf("No user messages found\n")
	}
	return p.err
}

// Line prints a line of a report.
func (p *Printer) Line(line string) error {
	p.printf("%s\n", p.safe(line))
	return p.err
}

// JSON prints a line of JSON. A line that is not JSON, or that ends an
// incomplete list, is an error.
func (p *Printer) JSON(line string) error {
	if err := listError(!p.printed, line); err != nil {
		return err
	}
	if !json.Valid([]byte(line)) {
		return errorf(Unavailable, "malformed JSON %q", line)
	}
	p.printf("%s\n", text.EscapeJSON(line))
	return p.err
}
