package ctlfile

// Parse: reading a complete control file.

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a control file. It accepts what routers and agents of all versions
// write: among other things, files without format flags, whose recipient lines may
// lack the pid and the delay field, and d lines in which the offset of the N line is
// too large by two. An error is always a *ParseError; the file may belong to mail
// nevertheless and must not be removed.
//
// N, R and n lines belong to the r or X line before them, whatever its tag.
// A line whose tag is invalid for its letter is skipped, as in older programs.
// If it is an s, r or X line, the file is malformed.
func Parse(data []byte) (*File, error) {
	f, err := parse(data)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func parse(data []byte) (*File, *ParseError) {
	if len(data) > MaxSize {
		return nil, &ParseError{Line: 1, Reason: fmt.Sprintf("a file of %d bytes is too large", len(data))}
	}
	text := string(data)
	usual := &usualFile{File: File{Body: -1, Torn: -1, Size: int64(len(data)), text: text}}
	usual.Senders, usual.Recipients = usual.senders[:0], usual.recipients[:0]
	p := parser{text: text, file: &usual.File}
	zero := -1 // the start of the first line with a NUL
	if at := bytes.IndexByte(data, 0); at >= 0 {
		zero = 1 + strings.LastIndexByte(text[:at], '\n')
	}
	for at := 0; at < len(text); {
		if at == zero && p.isTail(at) {
			p.file.Torn = int64(at)
			break
		}
		next, err := p.line(at)
		if zero >= at && (err != nil || zero < next) {
			return nil, p.malformed(zero, "NUL in the line")
		}
		if err != nil {
			return nil, err
		}
		at = next
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	p.file.dropIncomplete()
	return p.file, nil
}

type parser struct {
	text         string
	file         *File
	withHeader   int    // number of recipients that have their header block
	errorTo      string // the last e line
	beforeSender string // the same, if no s line has followed
}

// usualFile holds, in one allocation, a File and room for one sender and one recipient.
// Most files have no more.
type usualFile struct {
	File
	senders    [1]Sender
	recipients [1]Recipient
}

// reserve allocates room for the recipients and diagnostics of a file that has
// more than one recipient. It estimates their numbers from the lines after the
// second recipient. Header lines may make the estimate too high; hence the
// bound.
func (p *parser) reserve(second int) {
	const bound = 1 << 16
	recipients, diagnostics := 2, 0
	for rest := p.text[second:]; ; {
		end := strings.IndexByte(rest, '\n')
		if end < 0 || end+1 == len(rest) {
			break
		}
		rest = rest[end+1:]
		switch rest[0] {
		case 'r', 'X':
			recipients++
		case 'd':
			diagnostics++
		}
	}
	f := p.file
	f.Recipients = append(make([]Recipient, 0, min(recipients, bound)), f.Recipients...)
	if diagnostics > 0 {
		f.Diagnostics = append(make([]Diagnostic, 0, min(diagnostics, bound)), f.Diagnostics...)
	}
}

func (p *parser) malformed(at int, format string, args ...any) *ParseError {
	return &ParseError{
		Line:   1 + strings.Count(p.text[:at], "\n"),
		Offset: int64(at),
		Reason: fmt.Sprintf(format, args...),
	}
}

// line parses the line or block at an offset and returns the offset of the next one.
func (p *parser) line(at int) (next int, err *ParseError) {
	next, reason := nextLine(p.text, at)
	if next < 0 && p.text[at] == 'd' {
		// Only an append can be cut short by a crash. The tag of its recipient
		// is changed after the append, so no outcome is lost with this line.
		p.file.Torn = int64(at)
		return len(p.text), nil
	}
	if reason != "" {
		return 0, p.malformed(at, "%s", reason)
	}
	switch p.text[at] {
	case 'M':
		return next, nil
	case 'm':
		p.header(at+2, next-1)
		return next, nil
	}
	return next, p.field(at, p.text[at:next-1])
}

// isTail reports whether a line with a NUL is what a power cut has left of d lines
// that were not yet on disk: the file system had written the new size of the file,
// but not all of the text, and the missing parts read as NULs. Everything after such a
// line is ignored, because it may not begin where a line begins. A line before the end
// of the last header block cannot be one: that part of the file was on disk before.
func (p *parser) isTail(at int) bool {
	all := len(p.file.Recipients)
	return (p.text[at] == 'd' || p.text[at] == 0) && all > 0 && p.withHeader == all
}

// nextLine returns where the line after the one at this offset starts, or the reason
// why this line is malformed. next is -1 if the text ends within the line.
func nextLine(text string, at int) (next int, reason string) {
	rest := text[at+1:]
	switch text[at] {
	case '\n':
		return 0, "empty line"
	case 'm', 'M':
		if rest == "" || rest[0] != '\n' {
			return 0, "the text of a block does not start on the next line"
		}
		length := strings.Index(rest, "\n\n")
		if length < 0 {
			return -1, "header block without an empty line at its end"
		}
		return at + 1 + length + 2, ""
	}
	length := strings.IndexByte(rest, '\n')
	if length < 0 {
		return -1, "the last line has no end"
	}
	return at + 1 + length + 1, ""
}

// field parses a line that consists of letter, tag and value.
func (p *parser) field(at int, line string) *ParseError {
	letter := line[0]
	if !known(letter) {
		return nil
	}
	if len(line) < 2 {
		return p.malformed(at, "%.200q has no tag", line)
	}
	tag, value := Tag(line[1]), line[2:]
	switch letter {
	case 'r', 'X':
		return p.recipient(at, line)
	case 's':
		return p.sender(at, tag, value)
	case 'd':
		p.diagnostic(at, tag, value)
		return nil
	}
	if tag != Open {
		return nil
	}
	switch letter {
	case '@':
		return p.flags(at, value)
	case 'i':
		return p.name(at, value)
	case 'o':
		return p.body(at, value)
	case 'N', 'R', 'n', 'O':
		return p.delivery(at, letter, value)
	}
	p.anyText(letter, value)
	return nil
}

func known(letter byte) bool {
	switch letter {
	case '@', 'v', 'i', 'o', 'l', 'S', 'e', 'x', 'T', 's', 'r', 'X', 'N', 'R', 'n', 'O', 'd':
		return true
	}
	return false
}

// anyText parses the fields whose value may be any text.
func (p *parser) anyText(letter byte, value string) {
	f := p.file
	switch letter {
	case 'l':
		f.MessageID = value
	case 'S':
		f.Source = cmp.Or(f.Source, value)
	case 'e':
		p.errorTo, p.beforeSender = value, value
	case 'x':
		f.Obsoletes = append(f.Obsoletes, value)
	case 'T':
		f.Triggers = append(f.Triggers, value)
	}
}

// flags parses the @ line, a number in C notation: decimal, octal or
// hexadecimal.
func (p *parser) flags(at int, value string) *ParseError {
	n, err := strconv.ParseUint(strings.Trim(value, " \t"), 0, 64)
	if err != nil {
		return p.malformed(at, "format flags %.200q are not a number", value)
	}
	if unknown := Flags(n) &^ Supported; unknown != 0 {
		e := p.malformed(at, "format flags %.200q have %#x, which this program does not know", value, unknown)
		e.Unsupported = unknown
		return e
	}
	if len(p.file.Recipients) > 0 {
		return p.malformed(at, "format flags after a recipient")
	}
	p.file.Flags = Flags(n)
	return nil
}

func (p *parser) name(at int, value string) *ParseError {
	if !isName(value) {
		return p.malformed(at, "%.200q is not the name of a message file", value)
	}
	if p.file.Name != "" && p.file.Name != value {
		return p.malformed(at, "a second message file, %.200q; the first is %.200q", value, p.file.Name)
	}
	p.file.Name = value
	return nil
}

// isName reports whether s can be the name of a message file: it begins with a number
// and has no character that is unsafe in a path or in a line to an agent.
func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' || s[i] == '/' {
			return false
		}
	}
	_, ok := Number(s)
	return ok
}

func (p *parser) body(at int, value string) *ParseError {
	n, err := strconv.ParseUint(strings.Trim(value, " \t"), 10, 63)
	if err != nil {
		return p.malformed(at, "body offset %.200q is not a number", value)
	}
	p.file.Body = int64(n)
	return nil
}

func (p *parser) sender(at int, tag Tag, value string) *ParseError {
	if tag != Open {
		return p.malformed(at, "sender with tag %q", tag)
	}
	sender, reason := parseAddress(value)
	if reason != "" {
		return p.malformed(at, "sender %.200q: %s", value, reason)
	}
	p.file.Senders = append(p.file.Senders, Sender{Offset: int64(at), Address: sender, ErrorTo: p.beforeSender})
	p.beforeSender = ""
	return nil
}

// finish makes the checks that need the complete file, and sets ErrorTo.
func (p *parser) finish() *ParseError {
	f := p.file
	switch {
	case f.Name == "" && (len(f.Triggers) == 0 || len(f.Recipients) > 0):
		return p.malformed(0, "no i line: the message file is not named")
	case f.Name != "" && len(f.Recipients) == 0:
		return p.malformed(0, "no recipient")
	}
	if len(f.Senders) == 0 {
		f.ErrorTo = p.errorTo
		return nil
	}
	last := &f.Senders[len(f.Senders)-1]
	switch {
	case last.IsNull():
		f.NullSender = true
	case p.errorTo != "":
		f.ErrorTo = p.errorTo
	default:
		f.ErrorTo = last.User
	}
	return nil
}
