package client

import (
	"fmt"
	"strings"

	"zsched/mailq"
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
		id += fmt.Sprintf(", %d bytes, age %s", p.file.Size, mailq.FormatAge(p.Now, p.file.ModTime))
	}
	if id != "" {
		p.printf("\t  id\t%s\n", id)
	}
	if p.file.ErrorTo != "" {
		p.printf("\t  from\t%s\n", p.safe(p.file.ErrorTo))
	}
	p.printf("\t  to\t%s\n", strings.Join(to, "\n\t\t"))
}
