package report

// Composing: the header and the three parts of a notice.

import (
	"bytes"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/emersion/go-message/textproto"
)

// Composed is a notice as a message, with LF at line ends.
type Composed struct {
	Header string // lines with their ends
	Body   []byte
}

// Compose makes the message of a notice.
func Compose(n *Notice) (*Composed, error) {
	c := composer{Notice: n}
	c.boundary, c.eightBit = c.chooseBoundary(), !isASCII(n.Sender)
	body, err := c.body()
	if err != nil {
		return nil, fmt.Errorf("compose notice about %s: %w", n.SpoolID, err)
	}
	var header bytes.Buffer
	if err := textproto.WriteHeader(&header, c.header()); err != nil {
		return nil, fmt.Errorf("compose notice about %s: %w", n.SpoolID, err)
	}
	return &Composed{
		Header: strings.TrimSuffix(string(unixLines(header.Bytes())), "\n"),
		Body:   unixLines(body),
	}, nil
}

// unixLines replaces the library's line ends, CR LF, with LF.
func unixLines(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }

// composer composes one notice.
type composer struct {
	*Notice
	boundary string
	eightBit bool // the header or a part has bytes above 127
}

// chooseBoundary returns a boundary that nothing in the message contains.
func (c *composer) chooseBoundary() string {
	for n := 0; ; n++ {
		boundary := c.SpoolID + "=_/" + c.unique() + "." + strconv.Itoa(n)
		if !strings.Contains(c.Header, boundary) && !bytes.Contains(c.Body, []byte(boundary)) {
			return boundary
		}
	}
}

// unique returns a text that is different in each notice about a message.
func (c *composer) unique() string { return strconv.FormatInt(c.WrittenAt.UnixNano(), 36) }

// header returns the header of the notice. It adds the last field first, because
// the library puts each new field before the others.
func (c *composer) header() (h textproto.Header) {
	if c.eightBit {
		h.Add("Content-Transfer-Encoding", "8bit")
	}
	h.Add("Content-Type", "multipart/report; report-type=delivery-status; boundary=\""+c.boundary+"\"")
	h.Add("MIME-Version", "1.0")
	h.Add("Auto-Submitted", "auto-replied")
	if id := c.messageID(); id != "" {
		h.Add("References", id)
		h.Add("In-Reply-To", id)
	}
	c.addUnlessForm(&h, "Message-ID", "<"+c.SpoolID+"."+c.unique()+"@"+oneLine(c.Host)+">")
	c.addUnlessForm(&h, "Date", c.WrittenAt.Format(dateLayout))
	h.Add("Subject", encodedWord(c.subject()))
	if c.Form != nil {
		for _, field := range c.Form.Fields {
			name, value, _ := strings.Cut(field, ": ")
			h.Add(name, encodedWord(value))
		}
	}
	if c.Sender == "" {
		h.Add(loopField, oneLine(c.Host))
		h.Add("To", "dummy:;")
	} else {
		h.Add("To", "<"+oneLine(c.Sender)+">")
	}
	c.addUnlessForm(&h, "From", "Mail Delivery System <MAILER-DAEMON@"+oneLine(c.Host)+">")
	return h
}

func (c *composer) addUnlessForm(h *textproto.Header, name, value string) {
	if c.Form == nil || !c.Form.sets(name) {
		h.Add(name, value)
	}
}

// encodedWord encodes a value that is not ASCII (RFC 2047).
func encodedWord(s string) string { return mime.QEncoding.Encode("utf-8", s) }

// subject returns the form's subject and, in brackets, the number of recipients
// for each action.
func (c *composer) subject() string {
	subject := "Delivery report about your message"
	if c.Form != nil && c.Form.Subject != "" {
		subject = c.Form.Subject
	}
	if c.Sender == "" {
		subject = "Double-fault: " + subject
	}
	var counts []string
	for _, a := range []struct {
		action Action
		word   string
	}{{Failed, "FAILED"}, {Delayed, "DELAYED"}, {Relayed, "RELAYED-OK"}, {Delivered, "DELIVERED-OK"}, {Expanded, "EXPANDED-OK"}} {
		if n := c.count(a.action); n > 0 {
			counts = append(counts, a.word+"("+strconv.Itoa(n)+")")
		}
	}
	return subject + " [" + strings.Join(counts, ",") + "]"
}

// messageID returns the Message-ID of the message, or "" if it has none that is
// safe in a header field.
func (c *composer) messageID() string {
	m, err := mail.ReadMessage(strings.NewReader(c.Header + "\n"))
	if err != nil {
		return ""
	}
	id := strings.TrimSpace(m.Header.Get("Message-Id"))
	if len(id) < 3 || len(id) > 900 || id[0] != '<' || id[len(id)-1] != '>' ||
		strings.ContainsAny(id[1:len(id)-1], " \t<>") || !isASCII(id) || oneLine(id) != id {
		return ""
	}
	return id
}

// body returns the three parts.
func (c *composer) body() ([]byte, error) {
	status, err := c.deliveryStatus()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := textproto.NewMultipartWriter(&b)
	if err := w.SetBoundary(c.boundary); err != nil {
		return nil, err
	}
	b.WriteString("This is a delivery report in MIME format (RFC 3464).\n\n")
	text := c.text()
	textType := "text/plain; charset=us-ascii"
	if !isASCII(text) {
		textType = "text/plain; charset=utf-8"
	}
	original, originalType := c.original()
	for _, p := range []struct {
		kind, description string
		body              []byte
	}{
		{textType, "Notification", []byte(text)},
		{"message/delivery-status", "Delivery report", status},
		{originalType, "Returned message", original},
	} {
		if err := c.part(w, p.kind, p.description, p.body); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

// part writes one part. A text that is not ASCII is encoded, so that any mail
// system can pass it on; a returned message must not be encoded.
func (c *composer) part(w *textproto.MultipartWriter, kind, description string, body []byte) error {
	encoding := ""
	switch {
	case isASCII(body):
	case strings.HasPrefix(kind, "text/plain"):
		encoding = "quoted-printable"
		var b bytes.Buffer
		q := quotedprintable.NewWriter(&b)
		_, _ = q.Write(body) // a Buffer does not fail
		_ = q.Close()
		body = b.Bytes()
	default:
		encoding, c.eightBit = "8bit", true
	}
	var h textproto.Header
	if encoding != "" {
		h.Add("Content-Transfer-Encoding", encoding)
	}
	h.Add("Content-Type", kind)
	h.Add("Content-Description", description)
	to, err := w.CreatePart(h)
	if err != nil {
		return err
	}
	_, err = to.Write(body)
	return err
}

// original returns the third part and its type: the message or its header.
func (c *composer) original() (text []byte, kind string) {
	header := c.Header
	if header != "" && !strings.HasSuffix(header, "\n") {
		header += "\n"
	}
	global := !isASCII(header) && utf8.ValidString(header)
	switch {
	case c.Full && global:
		kind = "message/global"
	case c.Full:
		kind = "message/rfc822"
	case global:
		kind = "message/global-headers"
	default:
		kind = "text/rfc822-headers"
	}
	if !c.Full {
		return []byte(header), kind
	}
	return append([]byte(header+"\n"), c.Body...), kind
}
