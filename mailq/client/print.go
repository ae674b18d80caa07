package client

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"zsched/internal/text"
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
	// ZMailer says that the server has no JSON. Its list is printed exactly as
	// ZMailer's client prints it.
	ZMailer bool
	// Verbose 1 adds Message-Id, sender, recipients and diagnostics of each
	// message; 2 also adds size and age in version 1.
	Verbose int
	// Summary 1 prints the number of files and their bytes instead of a list, 2
	// only the number of files.
	Summary int
	// Spool is where control files are read; nil: none are read.
	Spool *Postoffice
	// Owner is the user whose messages are printed; nil: all are.
	Owner *int
	// Threads has what is known about the threads; nil: nothing is.
	Threads map[mailq.Name]*mailq.Thread

	thread  mailq.Name
	file    *SpoolFile // of the message being printed; nil: it cannot be read
	files   int        // of the thread
	bytes   int64      // of the thread
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
	p.thread, p.headed, p.files, p.bytes = name, false, 0, 0
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
	line := p.safe(p.thread.Channel + "/" + p.thread.Host)
	line += ":"
	if t := p.Threads[p.thread]; t != nil {
		if t.Held {
			line += " held"
		}
		for i := range t.Effects {
			line += " [" + p.safe(t.Effects[i].Text(p.Now)) + "]"
		}
		if window := t.WindowText(p.Now); p.Verbose > 0 && window != "" {
			line += " " + p.safe(window)
		}
		if p.Verbose > 0 && t.Site != "" {
			line += " site " + p.safe(t.Site)
		}
	}
	p.printf("%s\n", line)
}

// endThread prints the summary of a thread.
func (p *Printer) endThread() {
	if !p.headed || p.Summary == 0 {
		return
	}
	switch {
	case p.Summary > 1:
		p.printf("\t  %s\n", mailq.Plural(p.files, "file", "files"))
	case p.bytes == 0:
		p.printf("\t  %s, no file size info available\n", mailq.Plural(p.files, "file", "files"))
	default:
		p.printf("\t  %s, %d bytes total, %d bytes average\n",
			mailq.Plural(p.files, "file", "files"), p.bytes, p.bytes/int64(p.files))
	}
}

// beginMessage begins a message: it reads those of its files that are needed,
// and reports whether the message is to be printed. A server that speaks JSON
// reports the owner; for other servers it is the owner of the message file.
func (p *Printer) beginMessage(path string, owner *uint32) bool {
	p.file = nil
	if p.Spool != nil {
		switch {
		case p.Summary == 0 && p.Verbose > 0:
			p.file, _ = p.Spool.Read(path)
		case p.Owner != nil || p.Summary == 1:
			p.file, _ = p.Spool.Stat(path)
		}
	}
	if p.Owner != nil {
		if owner == nil && p.file != nil && p.file.UID >= 0 {
			uid := uint32(p.file.UID)
			owner = &uid
		}
		if owner == nil || int(*owner) != *p.Owner {
			return false
		}
		p.heading()
	}
	p.files++
	if p.file != nil {
		p.bytes += p.file.Size
	}
	return true
}

// Finish ends the list and returns the first error of Out. It says that a list
// is empty where ZMailer's client does: with Owner, and in version 1.
func (p *Printer) Finish(version int) error {
	p.endThread()
	switch {
	case p.printed:
	case p.Owner != nil:
		p.printf("No user messages found\n")
	case version == 1:
		p.printf("Transport queue is empty -- or scheduler uses -Q -mode\n")
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
