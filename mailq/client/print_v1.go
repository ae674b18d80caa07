package client

import (
	"fmt"
	"strings"
	"time"
)

// Dump prints a dump of version 1:
//
//	smtp/example.org:
//		N/B/860211:	smtp; 451 later (retry in 7s, expires in 4d23h, tries=1)
//		M/M/860196/2:	...
func (p *Printer) Dump(d *Dump) error {
	for i := range d.Threads {
		t := &d.Threads[i]
		p.beginThread(t.Name)
		for j := range t.Jobs {
			p.dumpJob(&t.Jobs[j])
		}
		if p.err != nil {
			break
		}
	}
	return p.Finish(1)
}

func (p *Printer) dumpJob(job *DumpJob) {
	if !p.beginMessage(job.Path, nil) || p.Summary > 0 {
		return
	}
	line := p.safe(job.Path)
	if job.Recipients > 1 {
		line += fmt.Sprintf("/%d", job.Recipients)
	}
	line += ":"
	if job.HasText {
		line += "\t" + p.safe(job.Text)
	}
	p.printf("\t%s\n", line)
	if p.Verbose > 0 && p.file != nil {
		p.dumpDetail(job)
	}
}

// dumpDetail prints what the control file adds. It prints nothing if no recipient
// of the job is in the file: then the file is that of another message, or the
// recipients are done by now.
func (p *Printer) dumpDetail(job *DumpJob) {
	var to []string
	for _, offset := range job.Offsets {
		user, ok := p.file.Recipient(p.thread, offset)
		if !ok {
			continue
		}
		to = append(to, p.safe(user))
	}
	if len(to) == 0 {
		return
	}
	id := p.safe(p.file.LogID)
	if p.Verbose > 1 && p.file.Size > 0 {
		id += fmt.Sprintf(", %d bytes, age %s", p.file.Size, formatAgeV1(p.Now.Sub(p.file.ModTime)))
	}
	if id != "" {
		p.printf("\t  id\t%s\n", id)
	}
	if p.file.ErrorTo != "" {
		p.printf("\t  from\t%s\n", p.safe(p.file.ErrorTo))
	}
	p.printf("\t  to\t%s\n", strings.Join(to, "\n\t\t"))
}

// formatAgeV1 writes an age as ZMailer's client does: at most three of days,
// hours, minutes and seconds. A unit is used only if the age is longer than it,
// so an hour is 60m0s.
func formatAgeV1(d time.Duration) string {
	s := int64(d / time.Second)
	var b strings.Builder
	fields := 3
	for _, u := range []struct {
		seconds int64
		letter  byte
	}{{86400, 'd'}, {3600, 'h'}, {60, 'm'}} {
		if s > u.seconds {
			fmt.Fprintf(&b, "%d%c", s/u.seconds, u.letter)
			s %= u.seconds
			fields--
		}
	}
	if fields > 0 {
		fmt.Fprintf(&b, "%ds", s)
	}
	return b.String()
}
