package main

// The verb show: every line of a control file, with its meaning.

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"zsched/ctlfile"
	"zsched/ta"
)

// meanings says what the letter of a line stands for.
var meanings = map[byte]string{
	'@': "format", 'v': "verbose log", 'i': "message file", 'o': "body at", 'l': "log identity",
	'b': "other body", 'e': "errors to", 'x': "obsoletes", 'T': "trigger", 's': "sender",
	'r': "recipient", 'X': "alternative", 'N': "  parameters", 'R': "  return", 'n': "  envelope id",
	'm': "header", 'M': "MIME structure", 'd': "diagnostic",
}

// show prints every line of a control file with its offset and its meaning.
func show(out io.Writer, path string, f *ctlfile.File) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s: %d bytes\n", path, f.Size)
	diagnostics := f.Diagnostics
	for offset, line := range f.Lines() {
		put := func(format string, args ...any) {
			fmt.Fprintf(&b, "%8d  %-16s", offset, meanings[line[0]])
			fmt.Fprintf(&b, format+"\n", args...)
		}
		recipient := f.Find(offset)
		switch {
		case recipient >= 0:
			put("%s", describe(f, recipient))
		case line[0] == 'm' || line[0] == 'M':
			put("%d bytes at %d", len(line)-2, offset+2)
			quote(&b, line[2:], "\n")
		case len(diagnostics) > 0 && diagnostics[0].Offset == offset:
			d := &diagnostics[0]
			put("of %d, %s", d.Recipient, reported(d))
			explain(&b, f, d)
			diagnostics = diagnostics[1:]
		case line[0] == 'd':
			put("%q, cut short or of another format", line)
		case meanings[line[0]] == "" || len(line) < 2:
			put("%q, ignored", line)
		case line[1] != byte(ctlfile.Open):
			put("%q, ignored for its tag", line)
		default:
			put("%s", line[2:])
		}
	}
	_, err := io.WriteString(out, printable(b.String()))
	return err
}

// describe returns a recipient's address and state.
func describe(f *ctlfile.File, i int) string {
	r := &f.Recipients[i]
	text := r.Address.String()
	if r.Class > 0 {
		text = fmt.Sprintf("%s, one of class %d", text, r.Class)
	}
	return text + ": " + state(f, i)
}

func state(f *ctlfile.File, i int) string {
	switch r := &f.Recipients[i]; {
	case r.Tag == ctlfile.Delivered, r.Tag == ctlfile.Failed:
		return f.Outcome(i)
	case r.Tag == ctlfile.Locked && r.PID() == 0:
		return "locked by nobody"
	case r.Tag == ctlfile.Locked:
		return fmt.Sprintf("locked by %d", r.PID())
	case f.Open(i):
		return "open"
	case f.Done(i):
		return "not needed"
	}
	return "waits for the one before"
}

// reported says whether the sender has been told of a diagnostic.
func reported(d *ctlfile.Diagnostic) string {
	if d.Tag == ctlfile.Delivered {
		return "reported"
	}
	return "not reported yet"
}

// explain prints the fields and the text of a diagnostic.
func explain(b *bytes.Buffer, f *ctlfile.File, d *ctlfile.Diagnostic) {
	item := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "%24s  %s\n", name, value)
		}
	}
	if i := f.Find(d.Recipient); i >= 0 {
		item("for", f.Recipients[i].User)
	} else {
		item("for", "no recipient of this file")
	}
	if !d.At.IsZero() {
		item("at", d.At.Format("2006-01-02 15:04:05 -0700"))
	}
	notary := ta.Notary(d.Notary)
	item("final recipient", notary.Recipient())
	item("action", notary.Action())
	item("status", notary.Code())
	item("diagnostic", notary.Diagnostic())
	item("remote host", notary.Remote())
	item("agent", notary.Agent())
	quote(b, d.Text, "\r")
}

// quote prints the lines of a text, each after a bar.
func quote(b *bytes.Buffer, text, end string) {
	text = strings.Trim(text, end)
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, end) {
		fmt.Fprintf(b, "%24s  %s\n", "|", line)
	}
}
