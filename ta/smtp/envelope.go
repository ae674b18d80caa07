// This file holds the envelope: which recipients share a transaction, and the
// commands MAIL and RCPT with their parameters (SIZE, BODY, SMTPUTF8).

package smtp

import (
	"strconv"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// job is the recipients of one message for one destination.
type job struct {
	id         uint64 // number of the control file
	message    *ta.Message
	recipients []*ta.Recipient
	alone      bool // the job line has no other recipients

	domain   string // host word; a connection for another one is not used
	policy   Policy // what a connection must comply with
	levels   [][]*target
	tried    map[string]bool // targets that could not be connected to for this job
	failed   *failure        // of the last of them
	since    time.Time       // when it was submitted
	requeues int             // times it was moved off a connection that ended at once
	// turn gets the connection that the job's goroutine is to open or to use now; nil: no
	// target works.
	turn chan *conn
}

// maxRecipients is the maximum number of recipients in a transaction. Every server
// must accept this many (RFC 5321 section 4.5.3.1.8).
const maxRecipients = 100

// shared is what the recipients of a transaction have in common.
type shared struct {
	from    string // reverse path; "" for the null sender
	header  string
	ret, id string // RET and ENVID
	mayUTF8 bool   // the message came with SMTPUTF8: headers within its body may be in UTF-8
	utf8    bool   // SMTPUTF8 is needed: an address is not ASCII, or the header with mayUTF8
}

// envelope is the recipients that may share a transaction.
type envelope struct {
	shared
	recipients []*ta.Recipient
}

// envelopes groups the recipients that have not been reported.
func (j *job) envelopes() []*envelope {
	var all []*envelope
	byShared := map[shared]*envelope{}
	mayUTF8 := ctlfile.ParseSource(j.message.File.Source).UTF8
	for _, r := range j.recipients {
		if r.Reported() {
			continue
		}
		s := shared{from: reversePath(r), header: r.Headers(), ret: r.Ret, id: r.EnvID, mayUTF8: mayUTF8}
		s.utf8 = !ascii(s.from) || !ascii(r.User) || mayUTF8 && !ascii(s.header)
		e := byShared[s]
		if e == nil {
			e = &envelope{shared: s}
			byShared[s] = e
			all = append(all, e)
		}
		e.recipients = append(e.recipients, r)
	}
	return all
}

// reversePath returns the sender's address, empty for the null sender.
func reversePath(r *ta.Recipient) string {
	if r.From.Channel == "error" || r.From.User == "-" {
		return ""
	}
	return ctlfile.Unbracketed(r.From.User)
}

// maxAddress is the maximum length of an address that is sent, in bytes. RFC 5321
// section 4.5.3.1.3 permits 256.
const maxAddress = 1000

// validAddress reports whether an address is valid in a command: it is not empty,
// not too long, and does not end the path or the line that contains it.
func validAddress(address string) bool {
	if len(address) > maxAddress {
		return false
	}
	quoted := false
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case c < ' ' || c == 0x7f:
			return false
		case c == '\\':
			i++
			if i == len(address) || address[i] < ' ' {
				return false
			}
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '<' || c == '>') && !quoted:
			return false
		}
	}
	return !quoted && address != ""
}

// mailCommand returns the MAIL command.
func (e *envelope) mailCommand(ext extensions, c *content) string {
	line := "MAIL From:<" + e.from + ">"
	if ext.eightBit {
		line += " BODY=8BITMIME"
	}
	if e.utf8 || e.mayUTF8 && ext.utf8 {
		line += " SMTPUTF8"
	}
	if ext.sized {
		line += " SIZE=" + strconv.FormatInt(c.size(), 10)
	}
	if ext.dsn {
		line += e.dsnOfMail()
	}
	return line
}

// rcptCommand returns the RCPT command for a recipient.
func rcptCommand(ext extensions, r *ta.Recipient) string {
	line := "RCPT To:<" + ctlfile.Unbracketed(r.User) + ">"
	if ext.dsn {
		line += dsnOfRcpt(r)
	}
	return line
}
