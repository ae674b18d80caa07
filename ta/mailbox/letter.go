package mailbox

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"mime/quotedprintable"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// letter is a message as one recipient gets it.
type letter struct {
	// Separator is the mbox line before it, with its LF: From sender date.
	Separator []byte
	// Head is the header with our trace lines and its empty line.
	Head []byte
	// Decode says that the body is quoted-printable and is to become plain.
	Decode bool
	// Offset and Length are the body's place in the message file.
	Offset, Length int64

	file io.ReaderAt // the message file
}

// readError is one of the message file, not of the mailbox.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

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
	l := &letter{Offset: offset, Length: length, file: file}
	if a.Decode && quotedText(headers) {
		// What is not well formed stays as it is.
		_, err := io.Copy(io.Discard, quotedprintable.NewReader(body))
		if l.Decode = err == nil; l.Decode {
			headers = plainEncoding(headers)
		}
	}
	sender := "MAILER-DAEMON"
	var b strings.Builder
	if r.From.Channel == "error" || r.From.User == "<>" || r.From.User == "-" {
		b.WriteString("Return-Path: <>\n")
	} else {
		sender = strings.TrimSuffix(strings.TrimPrefix(visible(r.From.User), "<"), ">")
		fmt.Fprintf(&b, "Return-Path: <%s>\n", sender)
	}
	if delivered != "" {
		fmt.Fprintf(&b, "Delivered-To: %s\n", delivered)
	}
	fmt.Fprintf(&b, "X-Orig-To: %s\n", originally(r))
	b.WriteString(without(headers, "Return-Path"))
	b.WriteString("\n")
	l.Head = []byte(b.String())
	l.Separator = separator(sender, a.Now())
	return l, nil
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

// reader reads the message from its header on. Errors are of readError.
func (l *letter) reader() io.Reader {
	var body io.Reader = io.NewSectionReader(l.file, l.Offset, l.Length)
	if l.Decode {
		body = quotedprintable.NewReader(body)
	}
	return io.MultiReader(bytes.NewReader(l.Head), faulty{body})
}

// faulty makes a reader's errors known as such.
type faulty struct{ r io.Reader }

func (f faulty) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err != nil && err != io.EOF {
		err = readError{fmt.Errorf("read the message: %w", err)}
	}
	return n, err
}

// writeMbox writes the letter as an entry of an mbox: the separator, lines
// that look like one quoted, and an empty line at the end. Errors of reading
// come back at once, those of writing by w.Flush.
func (l *letter) writeMbox(w *bufio.Writer) error {
	_, _ = w.Write(l.Separator)
	in := bufio.NewReaderSize(l.reader(), 64<<10)
	start := true
	for {
		part, err := in.ReadSlice('\n')
		if start && bytes.HasPrefix(part, []byte("From ")) {
			_ = w.WriteByte('>')
		}
		_, _ = w.Write(part)
		if len(part) > 0 {
			start = err == nil
		}
		if err == io.EOF {
			break
		}
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
	}
	if !start {
		_ = w.WriteByte('\n')
	}
	return w.WriteByte('\n')
}
