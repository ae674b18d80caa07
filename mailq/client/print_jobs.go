package client

// Printing jobs: what a thread has, message by message.

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/mailq"
)

// Job writes a job of a thread. The jobs of a thread must be written without
// those of other threads between them.
//
//	smtp/example.org:
//		M/836224: (1 try, expires in 4d23h) 451 later
//
// With Verbose:
//
//	smtp/example.org: 0 of 1 session
//		M/836224: (2 tries, age 3m57s, expires in 4d23h, 590+275 bytes)
//		  id	<m1@sender.example>
//		  from	alice@sender.example
//		  to	bob@example.org
//		  diag	smtp; 451 later
func (p *Printer) Job(job *mailq.JobLine) error {
	if job.Name != p.thread {
		p.beginThread(job.Name)
	}
	if p.Owner != nil {
		if job.Owner == nil || int(*job.Owner) != *p.Owner {
			return p.err
		}
		p.heading()
	}
	p.files++
	switch {
	case p.Summary || len(job.Recipients) == 0:
	case p.Verbose:
		p.details(job)
	default:
		line := fmt.Sprintf("\t%s: (%s) %s", p.safe(job.Path), strings.Join(p.facts(job), ", "), p.safe(lastReply(job)))
		p.printf("%s\n", strings.TrimRight(line, " "))
	}
	return p.err
}

// details writes what is known about a job.
func (p *Printer) details(job *mailq.JobLine) {
	// On another host this number may belong to another message. The file is
	// therefore used only if the recipient is in it.
	p.file = nil
	if p.Spool != nil {
		p.file, _ = p.Spool.Read(job.Path, job.Name.Host)
	}
	if p.file != nil {
		if _, ok := p.file.Recipient(job.Name, job.Recipients[0].Offset); !ok {
			p.file = nil
		}
	}
	p.jobHead(job)
	for i := range job.Recipients {
		r := &job.Recipients[i]
		user := r.User
		if user == "" && p.file != nil {
			user, _ = p.file.Recipient(job.Name, r.Offset)
		}
		if user != "" {
			p.printf("\t  to\t%s\n", p.safe(user))
		}
		for line := range strings.SplitSeq(r.Reason, "\r") {
			if line != "" {
				p.printf("\t  diag\t%s\n", p.safe(line))
			}
		}
	}
}

// jobHead writes what the recipients of a job have in common.
func (p *Printer) jobHead(job *mailq.JobLine) {
	p.printf("\t%s: (%s)\n", p.safe(job.Path), strings.Join(p.facts(job), ", "))
	if p.file != nil && p.file.MessageID != "" {
		p.printf("\t  id\t%s\n", p.safe(p.file.MessageID))
	}
	p.printf("\t  from\t%s\n", p.safe(cmp.Or(job.Sender, "<>")))
	if job.StartError != "" {
		p.printf("\t  wait\t%s\n", p.safe(mailq.StartReason(job.StartError)))
	}
}

// facts returns what stands in parentheses after the name of a job: its tries, an order that
// waits, and its expiry; in details its age and size, too.
func (p *Printer) facts(job *mailq.JobLine) []string {
	facts := []string{tries(job)}
	if order := mailq.OrderText(job.Order, job.OrderTo); order != "" {
		facts = append(facts, order)
	}
	if p.file != nil {
		facts = append(facts, "age "+mailq.FormatAge(p.Now, p.file.ModTime))
	}
	facts = append(facts, p.expiry(job))
	if p.file != nil {
		facts = append(facts, fmt.Sprintf("%d+%d bytes", p.file.Control, p.file.Size))
	}
	return facts
}

// tries returns how often delivery was tried, in words.
func tries(job *mailq.JobLine) string {
	most := 0
	for i := range job.Recipients {
		most = max(most, job.Recipients[i].Attempts)
	}
	return units.Plural(most, "try", "tries")
}

// lastReply returns why delivery failed: the last reply to one of the recipients.
func lastReply(job *mailq.JobLine) (reply string) {
	for i := 0; i < len(job.Recipients) && reply == ""; i++ {
		reply = mailq.LastReply(mailq.ReasonOf(job, &job.Recipients[i]))
	}
	return reply
}

// expiry says when a job expires, in whole seconds of the clock. For a message that is not
// loaded, whose expiry is not known, it gives the age.
func (p *Printer) expiry(job *mailq.JobLine) string {
	switch left := job.ExpiresAt.Unix() - p.Now.Unix(); {
	case job.State == mailq.StateUnloaded:
		return "not loaded, age " + mailq.FormatAge(p.Now, job.ArrivedAt)
	case job.ExpiresAt.IsZero():
		return "never expires"
	case left < 0:
		return "is past its expiry" // it is with an agent, or gets an attempt first
	default:
		return "expires in " + mailq.FormatSpan(time.Duration(left)*time.Second)
	}
}
