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

// headings say what became of the recipients below them: for one recipient, and for
// several.
var headings = [...][2]string{
	Failed: {
		"Your message could not be delivered to this address, and there will be no further attempt:",
		"Your message could not be delivered to these addresses, and there will be no further attempt:",
	},
	Delayed: {
		"Your message has not been delivered to this address yet. Attempts go on, and you need not send it again:",
		"Your message has not been delivered to these addresses yet. Attempts go on, and you need not send it again:",
	},
	Delivered: {"Your message was delivered to this address:", "Your message was delivered to these addresses:"},
	Relayed: {
		"Your message was passed on to a mail system that may send no notice of its delivery, for this address:",
		"Your message was passed on to mail systems that may send no notice of its delivery, for these addresses:",
	},
	Expanded: {
		"Your message was delivered to this address, which passes it on to several others:",
		"Your message was delivered to these addresses, which pass it on to several others:",
	},
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
			b.WriteString(wrap(headings[a][min(count, 2)-1], "") + "\n")
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

// describe writes what happened to one recipient and what the sender can do.
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
	if advice := r.advice(); advice != "" {
		b.WriteString(wrap(advice, "    "))
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

// adviceByStatus says what a sender can do about a failure, by the beginning of the
// status code without its class (RFC 3463). The first match counts.
var adviceByStatus = []struct{ code, words string }{
	{"1.1", "There is no such address. Check how it is written."},
	{"1.2", "There is no such mail system. Check the part of the address after the @."},
	{"1.3", "The address is not a valid mail address. Check how it is written."},
	{"1.6", "The recipient has moved. Ask for the new address."},
	{"1.8", "The other side does not accept your own address. Check the sender address of your mail program."},
	{"1.7", "The other side does not accept your own address. Check the sender address of your mail program."},
	{"1.", "Check the address."},
	{"2.1", "The mailbox is not in use now. Try to reach the recipient in another way."},
	{"2.2", "The mailbox is full. Send the message again later, or tell the recipient in another way."},
	{"2.3", "The message is too large for the mailbox. Send it in smaller parts."},
	{"3.4", "The message is too large for the other mail system. Send it in smaller parts."},
	{"3.1", "The other mail system has no room now. Send the message again later."},
	{"4.7", "The message could not be delivered in time. Send it again later, or ask the recipient's postmaster."},
	{"4.", "The other mail system could not be reached. Check the part of the address after the @, or send the message again later."},
	{"6.", "The other mail system does not accept what the message contains. Send it in another format."},
	{"7.", "The other mail system does not want the message. Ask its postmaster, or reach the recipient in another way."},
	{"", "If this does not tell you what is wrong, ask your postmaster and send this notice along."},
}

// advice says what the sender can do about a failure, "" for anything else.
func (r *Recipient) advice() string {
	if r.Action != Failed {
		return ""
	}
	detail := r.status()[2:]
	for _, a := range adviceByStatus {
		// A complete code matches only itself: 1.1 is not the beginning of 1.10.
		if strings.HasPrefix(detail, a.code) && (detail == a.code || a.code == "" || strings.HasSuffix(a.code, ".")) {
			return a.words
		}
	}
	return ""
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
