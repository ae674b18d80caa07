package mailbox

// This file writes the message for one recipient: the trace fields, the header,
// the body, and the format of an mbox entry.

import (
	"bufio"
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
	// of input.
	Offset int64 `json:"-"`
	Length int64 `json:"-"`

	file  io.ReaderAt // the message file
	input io.Reader   // in a helper, in place of all but the separator: what write writes
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

// text returns the message without its separator, and its size.
func (msg *message) text() (io.Reader, int64) {
	if msg.input != nil {
		return msg.input, msg.Length
	}
	head := fmt.Sprintf("%s%s\n", msg.Trace, msg.Header)
	return io.MultiReader(strings.NewReader(head), io.NewSectionReader(msg.file, msg.Offset, msg.Length)), int64(len(head)) + msg.Length
}

// write writes the message without its separator. The error is that of w, or a ta.ReadError: a
// message that ends too early is one.
func (msg *message) write(w io.Writer) error {
	text, size := msg.text()
	// Without its other methods: a bufio.Writer would keep a read error as its own.
	_, err := io.CopyN(struct{ io.Writer }{w}, source{text}, size)
	if err == io.EOF {
		err = &ta.ReadError{Err: io.ErrUnexpectedEOF}
	}
	return err
}

// source is a message file whose errors can be told from those of a mailbox.
type source struct{ io.Reader }

func (s source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = &ta.ReadError{Err: err}
	}
	return n, err
}

// writeMbox writes the message as an entry of an mbox: the separator, the
// message, in which lines that look like a separator are quoted, and an empty
// line.
func (msg *message) writeMbox(w *bufio.Writer) error {
	_, _ = w.Write(msg.Separator)
	text, size := msg.text()
	if err := (ta.Framing{From: true}).Write(w, text, size); err != nil {
		return err
	}
	_ = w.WriteByte('\n')
	return w.Flush()
}
