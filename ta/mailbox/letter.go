package mailbox

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
	"zsched/ta/mime"
)

// letter is a message as one recipient gets it.
type letter struct {
	// Separator is the mbox line before it, with its LF: From sender date.
	Separator []byte
	// Trace is the header lines that are ours, Header the message's own.
	Trace, Header []byte
	// Decode makes 8-bit text of quoted-printable text.
	Decode bool
	// Offset and Length are the body's place in the message file.
	Offset, Length int64

	file io.ReaderAt // the message file
}

// letter writes the header of a message for one recipient. The error is that
// of a loop, or of a message that cannot be read.
func (a *Agent) letter(m *ta.Message, r *ta.Recipient, to target) (*letter, error) {
	body, err := m.Body()
	if err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	file, offset, length := body.Outer()
	delivered := a.deliveredTo(r, to)
	headers := r.Headers()
	if loops(headers, delivered) {
		return nil, &failure{ta.Error, "5.4.6 (mail loop)", fmt.Errorf(
			"mail loop: this message was delivered to %q before", delivered)}
	}
	sender := "MAILER-DAEMON"
	var b strings.Builder
	if nobodys(r) {
		b.WriteString("Return-Path: <>\n")
	} else {
		sender = strings.TrimSuffix(strings.TrimPrefix(visible(r.From.User), "<"), ">")
		fmt.Fprintf(&b, "Return-Path: <%s>\n", sender)
	}
	if delivered != "" {
		fmt.Fprintf(&b, "Delivered-To: %s\n", delivered)
	}
	fmt.Fprintf(&b, "X-Orig-To: %s\n", originally(r))
	return &letter{
		Separator: separator(sender, a.Now()),
		Trace:     []byte(b.String()), Header: []byte(mime.WithoutField(headers, "Return-Path")),
		Decode: a.Decode, Offset: offset, Length: length, file: file,
	}, nil
}

// loops says that a message was delivered to this address before.
func loops(header, address string) bool {
	for name, text := range mime.Fields(header) {
		if address != "" && strings.EqualFold(name, "Delivered-To") && strings.EqualFold(mime.FieldValue(text), address) {
			return true
		}
	}
	return false
}

// nobodys says that the sender is nobody, as in MAIL FROM:<>.
func nobodys(r *ta.Recipient) bool {
	return r.From.Channel == "error" || r.From.User == "<>" || r.From.User == "-"
}

// separator is the line by which an mbox tells messages apart.
func separator(sender string, now time.Time) []byte {
	return fmt.Appendf(nil, "From %s %s\n", strings.Join(strings.Fields(sender), "-"), now.Format(time.ANSIC))
}

// deliveredTo is what we write into a message to know it again. A name without
// domain gets ours, or every bob in the world would be the same. Commands and
// files have the address they stand for, if it is known.
func (a *Agent) deliveredTo(r *ta.Recipient, to target) string {
	switch {
	case to.kind != toUser:
		address, _ := original(r)
		return address
	case to.domain != "":
		return visible(to.name + "@" + to.domain)
	}
	return visible(to.name + "@" + a.Domain)
}

// originally is the address as the sender wrote it, as far as that is known.
func originally(r *ta.Recipient) string {
	if address, ok := original(r); ok {
		return address
	}
	return visible(r.User)
}

func original(r *ta.Recipient) (address string, ok bool) {
	for _, key := range []string{"ORCPT", "INRCPT"} {
		if value, ok := ctlfile.DSNWord(r.DSN, key); ok {
			_, address := ctlfile.DSNAddress(value)
			return visible(address), true
		}
	}
	return "", false
}

// visible keeps an address from becoming more than one line.
func visible(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

// write writes the letter without its separator, and says in the words of the
// system's log what was done to it. The error is that of w, or one of reading.
func (l *letter) write(w io.Writer) (cvt string, err error) {
	body := io.NewSectionReader(l.file, l.Offset, l.Length)
	if !l.Decode {
		if _, err := fmt.Fprintf(w, "%s%s\n", l.Trace, l.Header); err != nil {
			return "", err
		}
		if _, err = io.Copy(w, source{body}); err != nil {
			return "", err
		}
		return "NONE", nil
	}
	plan, err := mime.NewPlan(string(l.Header), body, mime.Conversion{To: mime.EightBit, KeepHeader: true})
	if err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", l.Trace, plan.Header()); err != nil {
		return "", err
	}
	return plan.Cvt, plan.WriteBody(w)
}

// source is a message file, whose errors are told from those of a mailbox.
type source struct{ io.Reader }

func (s source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read the message: %w", err)
	}
	return n, err
}

// writeMbox writes the letter as an entry of an mbox: the separator, lines
// that look like one quoted, and an empty line at the end.
func (l *letter) writeMbox(w *bufio.Writer) (cvt string, err error) {
	_, _ = w.Write(l.Separator)
	q := &quoter{w: w, start: true}
	if cvt, err = l.write(q); err != nil {
		return cvt, err
	}
	q.end()
	return cvt, w.Flush()
}

// fromLine is how a line begins that tells messages apart.
const fromLine = "From "

// quoter writes ">" before every line that begins with fromLine.
type quoter struct {
	w     *bufio.Writer
	start bool // of a line
	held  int  // bytes of fromLine that are seen at the start, and not written
}

func (q *quoter) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		if q.start {
			for q.held < len(fromLine) && len(rest) > 0 && rest[0] == fromLine[q.held] {
				q.held, rest = q.held+1, rest[1:]
			}
			if len(rest) == 0 && q.held < len(fromLine) {
				break
			}
			q.release()
			continue
		}
		end := bytes.IndexByte(rest, '\n') + 1
		q.start = end > 0
		if end == 0 {
			end = len(rest)
		}
		if _, err := q.w.Write(rest[:end]); err != nil {
			return 0, err
		}
		rest = rest[end:]
	}
	return len(b), nil
}

// release writes what is held: it is known now what line it begins. Errors
// stay in w.
func (q *quoter) release() {
	if q.held == len(fromLine) {
		_ = q.w.WriteByte('>')
	}
	_, _ = q.w.WriteString(fromLine[:q.held])
	q.start, q.held = false, 0
}

// end ends the last line, and the entry by an empty one.
func (q *quoter) end() {
	if q.held > 0 {
		q.release()
	}
	if !q.start {
		_ = q.w.WriteByte('\n')
	}
	_ = q.w.WriteByte('\n')
}
