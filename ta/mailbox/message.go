package mailbox

// This file writes the message for one recipient: the trace fields, the header,
// the body, and the format of an mbox entry.

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/ta"
)

// message is a message as one recipient gets it.
type message struct {
	// Separator is the mbox line before it, with its LF: From sender date.
	Separator []byte
	// Trace is the header fields that we add, Header the message's own.
	Trace  []byte `json:"-"`
	Header []byte `json:"-"`
	// Offset and Length say where in the message file the body is. In a helper Length is that
	// of text.
	Offset int64 `json:"-"`
	Length int64 `json:"-"`

	file io.ReaderAt // the message file
	text io.Reader   // in a helper, in place of all but the separator: what write writes
}

// newMessage returns m as the recipient gets it. The error says that m is
// in a mail loop, or cannot be read.
func (a *Agent) newMessage(m *ta.Message, r *ta.Recipient, to target) (*message, error) {
	body, err := m.Body()
	if err != nil {
		return nil, fmt.Errorf("read the message: %w", err)
	}
	file, offset, length := body.Outer()
	limit := a.LockWait + a.MailboxLimit
	if to.kind == toCommand {
		limit = a.TimeLimit
	}
	delivered := a.deliveredTo(r, to)
	headers := r.Headers()
	if loops(headers, delivered) {
		return nil, &failure{ta.Error, "5.4.6 (mail loop)", fmt.Errorf(
			"mail loop: this message was delivered to %q before", delivered)}
	}
	sender := "MAILER-DAEMON"
	var b strings.Builder
	if nullSender(r) {
		b.WriteString("Return-Path: <>\n")
	} else {
		sender = ctlfile.Unbracketed(visible(r.From.User))
		fmt.Fprintf(&b, "Return-Path: <%s>\n", sender)
	}
	if delivered != "" {
		fmt.Fprintf(&b, "Delivered-To: %s\n", delivered)
	}
	fmt.Fprintf(&b, "X-Orig-To: %s\n", originalOrUser(r))
	return &message{
		Separator: separator(sender, a.Now()),
		Trace:     []byte(b.String()), Header: []byte(header.Split(headers).Without("Return-Path").String()),
		Offset: offset, Length: length, file: timedFile{file, time.Now().Add(limit), limit},
	}, nil
}

// timedFile is a message file that can be read until the time limit of its delivery. A
// file with holes may be much larger than any disk.
type timedFile struct {
	io.ReaderAt
	until time.Time
	limit time.Duration
}

func (f timedFile) ReadAt(b []byte, offset int64) (int, error) {
	if time.Now().After(f.until) {
		return 0, fmt.Errorf("the delivery took more than %v", f.limit)
	}
	return f.ReaderAt.ReadAt(b, offset)
}

// loops reports whether a message was delivered to this address before.
func loops(headers, address string) bool {
	return address != "" && slices.ContainsFunc(header.Split(headers), func(field string) bool {
		return header.Is(field, "Delivered-To") && strings.EqualFold(header.Value(field), address)
	})
}

// nullSender reports whether the sender is null, as in MAIL FROM:<>.
func nullSender(r *ta.Recipient) bool {
	return r.From.Channel == "error" || r.From.User == "<>" || r.From.User == "-"
}

// separator is the line that begins a message in an mbox.
func separator(sender string, now time.Time) []byte {
	return fmt.Appendf(nil, "From %s %s\n", strings.Join(strings.Fields(sender), "-"), now.Format(time.ANSIC))
}

// deliveredTo is the address by which we recognize a message that was here
// before. A name without domain gets ours; otherwise bob would be the same
// user on every host. For commands and files it is the original address, if known.
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

// originalOrUser is the original address, or else the user word.
func originalOrUser(r *ta.Recipient) string {
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

// visible replaces control characters, so that an address stays on one line.
func visible(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c == 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

// write writes the message without its separator. The error is that of w, or a read
// error: a message that ends too early is one.
func (msg *message) write(w io.Writer) error {
	text := msg.text
	if text == nil {
		if _, err := fmt.Fprintf(w, "%s%s\n", msg.Trace, msg.Header); err != nil {
			return err
		}
		text = io.NewSectionReader(msg.file, msg.Offset, msg.Length)
	}
	// Without its other methods: a bufio.Writer would keep a read error as its own.
	_, err := io.CopyN(struct{ io.Writer }{w}, source{text}, msg.Length)
	if err == io.EOF {
		err = fmt.Errorf("read the message: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// source is a message file whose errors can be told from those of a mailbox.
type source struct{ io.Reader }

func (s source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read the message: %w", err)
	}
	return n, err
}

// writeMbox writes the message as an entry of an mbox: the separator, the
// message, in which lines that look like a separator are quoted, and an empty
// line.
func (msg *message) writeMbox(w *bufio.Writer) error {
	_, _ = w.Write(msg.Separator)
	q := &quoter{w: w, start: true}
	if err := msg.write(q); err != nil {
		return err
	}
	q.end()
	return w.Flush()
}

// fromLine begins a separator.
const fromLine = "From "

// quoter writes ">" before every line that begins with fromLine.
type quoter struct {
	w     *bufio.Writer
	start bool // nothing of the line is written yet
	held  int  // bytes of fromLine that began the line and are not written yet
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

// release writes what is held, now that the line is known to be a separator or
// not. w keeps its first error.
func (q *quoter) release() {
	if q.held == len(fromLine) {
		_ = q.w.WriteByte('>')
	}
	_, _ = q.w.WriteString(fromLine[:q.held])
	q.start, q.held = false, 0
}

// end ends the last line and writes the empty line after the entry.
func (q *quoter) end() {
	if q.held > 0 {
		q.release()
	}
	if !q.start {
		_ = q.w.WriteByte('\n')
	}
	_ = q.w.WriteByte('\n')
}
