package report

// The text of a notice: what a person reads.

import (
	"bytes"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"time"
)

// dateLayout is the date and time of RFC 5322.
const dateLayout = time.RFC1123Z

// headings say what became of the recipients below them.
var headings = [...]string{
	Failed:    "Your message could not be delivered to the following, and there will be no further attempt:",
	Delayed:   "Your message has not been delivered to the following yet. Attempts go on, and you need not send it again:",
	Delivered: "Your message was delivered to:",
	Relayed:   "Your message was passed on to a mail system that may send no notice of its delivery, for:",
	Expanded:  "Your message was delivered to the following, which passes it on to several others:",
}

// text returns the part for people.
func (n *Notice) text() string {
	var b bytes.Buffer
	if n.Form != nil && n.Form.Text != "" {
		b.WriteString(strings.ToValidUTF8(strings.TrimRight(n.Form.Text, "\n"), "?") + "\n\n")
	} else {
		fmt.Fprintf(&b, "This is the mail system at %s.\n", oneLine(n.Host))
		b.WriteString("It reports on a message that came with your address as its sender.\n\n")
	}
	n.describeMessage(&b)
	for a := Failed; a <= Expanded; a++ {
		if count := n.count(a); count > 0 {
			b.WriteString(wrap(headings[a], "") + "\n")
			n.describeAll(&b, a, count)
		}
	}
	returned := "The header of your message"
	if n.Full {
		returned = "Your message"
	}
	b.WriteString(wrap("A report for programs and "+strings.ToLower(returned[:1])+returned[1:]+" follow.", ""))
	if n.TooLarge {
		b.WriteString(wrap("The message itself is too large to be returned.", ""))
	}
	return b.String()
}

// describeMessage says which message the notice is about.
func (n *Notice) describeMessage(b *bytes.Buffer) {
	h, err := mail.ReadMessage(strings.NewReader(n.Header + "\n"))
	if err == nil {
		subject := h.Header.Get("Subject")
		if decoded, err := new(mime.WordDecoder).DecodeHeader(subject); err == nil {
			subject = decoded
		}
		for _, field := range [][2]string{
			{"Subject", subject}, {"Date", h.Header.Get("Date")}, {"Message-ID", h.Header.Get("Message-Id")},
		} {
			if value := clip(oneLine(field[1]), maxLine); value != "" {
				fmt.Fprintf(b, "  %-12s%s\n", field[0]+":", value)
			}
		}
	}
	fmt.Fprintf(b, "  %-12s%s\n", "Arrived:", n.ArrivedAt.Format(dateLayout))
	fmt.Fprintf(b, "  %-12s%s\n\n", "Queue name:", n.SpoolID)
}

// maxDescribed bounds the recipients with the same action that are described.
const maxDescribed = 100

// describeAll writes what happened to the recipients with an action; count is how
// many there are.
func (n *Notice) describeAll(b *bytes.Buffer, a Action, count int) {
	described := 0
	for i := range n.Recipients {
		r := &n.Recipients[i]
		switch {
		case r.Action != a:
		case described == maxDescribed:
			b.WriteString(wrap(fmt.Sprintf("There are %d more addresses, which the report for programs lists.", count-described), "  ") + "\n")
			return
		default:
			described++
			n.describe(b, r)
		}
	}
}

// describe writes what happened to one recipient.
func (n *Notice) describe(b *bytes.Buffer, r *Recipient) {
	fmt.Fprintf(b, "  <%s>\n", clip(oneLine(r.Address), maxLine))
	if _, address := r.original(); address != "" && address != oneLine(r.Address) {
		b.WriteString(wrap("You addressed it to <"+clip(address, maxLine)+">.", "    "))
	}
	if r.Action == Failed || r.Action == Delayed {
		if lines, theirs := r.reply(); len(lines) > 0 {
			b.WriteString(wrap(r.speaker(theirs), "    "))
			for _, line := range lines {
				b.WriteString("      " + line + "\n")
			}
		}
	}
	if r.Action == Delayed && !r.RetryUntil.IsZero() {
		b.WriteString(wrap("Attempts go on until "+r.RetryUntil.Format(dateLayout)+".", "    "))
	}
	b.WriteString("\n")
}

// speaker introduces the reply.
func (r *Recipient) speaker(theirs bool) string {
	_, host, _ := strings.Cut(r.Remote, ";")
	switch host = clip(oneLine(host), maxLine); {
	case host == "":
		return "The reason:"
	case theirs:
		return "What the mail server " + host + " said:"
	}
	return "The reason, from the last attempt at " + host + ":"
}

// wrap breaks a paragraph into indented lines of at most 72 columns. A word that is
// too long gets a line of its own.
func wrap(paragraph, indent string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(paragraph) {
		switch {
		case column == 0:
			b.WriteString(indent)
			column = len(indent)
		case column+1+len(word) > 72:
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteString("\n")
	return b.String()
}
