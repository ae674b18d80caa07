package client

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"zsched/mailq"
)

// Printer writes what a server says as people read it (mailq(1)). Its caller
// buffers Out. The zero value of every field but Out and Now means: no.
type Printer struct {
	Out io.Writer
	Now time.Time
	// Terminal: Out is one. No byte from the network commands it then, and
	// the line ends inside diagnostics, which are CR, are shown as ^M. For
	// programs they are the bytes that they always were.
	Terminal bool
	// Colour sets off what matters.
	Colour bool
	// Verbose 1 adds identity, sender and recipients of each message, 2 its
	// size and age in version 1.
	Verbose int
	// Summary 1 counts files and bytes instead of listing them, 2 only files.
	Summary int
	// Spool is where control files are read, nil to read none.
	Spool *Postoffice
	// Owner is the user whose messages are shown; nil shows all.
	Owner *int

	thread  mailq.Name // whose header is printed
	path    string     // the message that file is about
	file    *SpoolFile // nil: not readable
	files   int        // of the thread, for Summary
	bytes   int64
	headed  bool // the thread's header is printed
	hidden  bool // the message is not of Owner
	printed bool // anything at all
	err     error
}

// printf writes, until a write has failed.
func (p *Printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.Out, format, args...)
		p.printed = true
	}
}

// safe is a text from the network for Out.
func (p *Printer) safe(text string) string {
	if p.Terminal {
		return Plain(text)
	}
	return escape(text, "\t\r")
}

// head begins a thread.
func (p *Printer) head(name mailq.Name) {
	p.foot()
	p.thread, p.headed, p.files, p.bytes, p.path = name, false, 0, 0, ""
	if p.Owner == nil {
		p.header()
	}
}

// header names the thread, once.
func (p *Printer) header() {
	if p.headed {
		return
	}
	p.headed = true
	line := p.safe(p.thread.Channel + "/" + p.thread.Host)
	if p.Colour {
		line = bold + line + normal
	}
	p.printf("%s:\n", line)
}

const (
	bold   = "\x1b[1m"
	normal = "\x1b[0m"
)

// foot ends a thread with its summary.
func (p *Printer) foot() {
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

// message looks at the file of a message and reports whether it is to be
// shown.
func (p *Printer) message(path string) bool {
	p.path, p.file, p.hidden = path, nil, false
	if p.Spool != nil {
		switch {
		case p.Summary == 0 && p.Verbose > 0:
			p.file, _ = p.Spool.Read(path)
		case p.Owner != nil || p.Summary == 1:
			p.file, _ = p.Spool.Stat(path)
		}
	}
	if p.Owner != nil {
		if p.hidden = p.file == nil || p.file.UID != *p.Owner; p.hidden {
			return false
		}
		p.header()
	}
	p.files++
	if p.file != nil {
		p.bytes += p.file.Size
	}
	return true
}

// Finish ends the last thread, says in words that there was nothing where the
// old mailq did, and returns the first error of writing.
func (p *Printer) Finish(version int) error {
	p.foot()
	switch {
	case p.printed:
	case p.Owner != nil:
		p.printf("No user messages found\n")
	case version == 1:
		p.printf("Transport queue is empty -- or scheduler uses -Q -mode\n")
	}
	return p.err
}

// Line writes a line of a report as it is.
func (p *Printer) Line(line string) error {
	p.printf("%s\n", p.safe(line))
	return p.err
}

// JSON writes a line that is an object of JSON, or returns what is wrong with
// it.
func (p *Printer) JSON(line string) error {
	if err := jsonTrouble(!p.printed, line); err != nil {
		return err
	}
	if !json.Valid([]byte(line)) {
		return fault(Garbled, "malformed JSON %q", line)
	}
	p.printf("%s\n", plainJSON(line))
	return p.err
}
