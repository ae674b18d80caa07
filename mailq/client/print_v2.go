package client

import (
	"fmt"
	"strings"
	"time"

	"zsched/mailq"
)

// Recipient writes a line of SHOW THREAD; lines of a thread come in one piece.
//
//	smtp/example.org:
//		M/836224: (1 tries, expires in 4d23h) smtp; 451 later
//
// and with Verbose:
//
//	smtp/example.org:
//		M/836224: (2 tries, age 3m57s, expires in 4d23h, 590+275 bytes)
//		  id	<m1@sender.example>
//		  from	alice@sender.example
//		  to	bob@example.org
//		  diag	smtp; 451 later
func (p *Printer) Recipient(name mailq.Name, r *RecipientLine) error {
	if name != p.thread {
		p.head(name)
	}
	first := r.Index == 0 || r.Path != p.path
	if first {
		p.message(r.Path)
	}
	if p.hidden || p.Summary > 0 {
		return p.err
	}
	user, known := "", false
	if p.file != nil && p.Verbose > 0 {
		if user, known = p.file.Recipient(name, r.Offset); !known && first {
			p.file = nil
		}
	}
	if r.Index == 0 {
		p.group(r)
	}
	if p.Verbose == 0 {
		return p.err
	}
	if known {
		p.printf("\t  to\t%s\n", p.safe(user))
	}
	for line := range strings.SplitSeq(r.Reason, "\r") {
		if line != "" {
			p.printf("\t  diag\t%s\n", p.safe(line))
		}
	}
	return p.err
}

// group writes what the recipients of a message have in common.
func (p *Printer) group(r *RecipientLine) {
	facts := []string{fmt.Sprintf("%d tries", r.Attempts)}
	if p.file != nil && p.Verbose > 0 {
		facts = append(facts, "age "+mailq.FormatSpan(p.Now.Sub(p.file.ModTime)))
	}
	if r.ExpiresAt.IsZero() {
		facts = append(facts, "never expires")
	} else {
		facts = append(facts, "expires in "+p.until(r.ExpiresAt))
	}
	if p.file != nil && p.Verbose > 0 {
		facts = append(facts, fmt.Sprintf("%d+%d bytes", p.file.Control, p.file.Size))
	}
	p.printf("\t%s: (%s)", p.safe(r.Path), strings.Join(facts, ", "))
	if p.Verbose == 0 {
		p.printf(" %s\n", p.safe(r.Reason))
		return
	}
	p.printf("\n")
	if p.file != nil && p.file.LogID != "" {
		p.printf("\t  id\t%s\n", p.safe(p.file.LogID))
	}
	from := r.Sender
	if from == "" {
		from = "<>"
	}
	p.printf("\t  from\t%s\n", p.safe(from))
}

// until is the time to a moment in whole seconds, as those who reckon in
// time_t have it.
func (p *Printer) until(at time.Time) string {
	return mailq.FormatSpan(time.Duration(at.Unix()-p.Now.Unix()) * time.Second)
}
