package ta

// This file defines reports: the lines with which an agent reports one
// recipient's result, and the delivery status fields of RFC 3464 in them.

import (
	"fmt"
	"strconv"
	"strings"
)

// Status is the result of one recipient: the word on the wire (ta(7), REPORTS).
type Status uint8

// The statuses. Exit codes of programs are not part of the protocol.
const (
	// OK: delivered. The scheduler writes the diagnostic, if one is owed.
	OK Status = iota + 1
	// OK2: delivered, and the agent has appended the diagnostic.
	OK2
	// OK3: delivered, and no notice is wanted.
	OK3
	// Error: failed for good. The scheduler writes the diagnostic.
	Error
	// Error2: failed for good, and the agent has appended the diagnostic.
	Error2
	// Deferred: try this recipient again later.
	Deferred
	// DeferBack: as Deferred; sent when the connection was lost after
	// DATA or BDAT, so that the server may have the message.
	DeferBack
	// DeferAll: the destination failed; every unreported recipient of the
	// job line is deferred with this one.
	DeferAll
	// RetryAt: as Deferred, and the destination says when (see Report.Retry).
	RetryAt
	// Connecting: no result yet. The agent is about to connect to Report.Site.
	Connecting
)

// NotTriedAgain is in the text of a report of an agent that has not tried a destination, because it failed
// shortly before. The reply in such a text is of the earlier try.
const NotTriedAgain = " is not tried again before "

// statusWords are the words on the wire, in the order of the constants.
var statusWords = [...]string{"", "ok", "ok2", "ok3", "error", "error2",
	"deferred", "deferback", "deferall", "retryat", "connecting"}

// String is the word on the wire.
func (s Status) String() string {
	if s == 0 || int(s) >= len(statusWords) {
		return fmt.Sprintf("status(%d)", uint8(s))
	}
	return statusWords[s]
}

// Final reports whether the recipient needs no further attempt.
func (s Status) Final() bool { return s >= OK && s <= Error2 }

func parseStatus(word []byte) (Status, bool) {
	for i, w := range statusWords {
		if i > 0 && w == string(word) {
			return Status(i), true
		}
	}
	return 0, false
}

// Report is an agent's result for one recipient: a line
//
//	id "/" offset TAB notary TAB status SP message LF
//
// The zero value is not a valid report.
type Report struct {
	Message uint64 // number of the control file
	Offset  int64  // recipient's identity: byte offset of its r (or X) line
	Notary  Notary // as on the wire, "" when absent
	Status  Status
	Text    string // free text; CR separates the lines of a transcript
	Retry   Retry  // for RetryAt only
	// Site is the server that took part in the session, such as the name of an MX
	// host; "": not known. On the wire it follows the notary fields.
	Site string
}

// Retry is the number of a retryat report. The zero value says that there was
// none, which makes the report a plain deferral.
type Retry struct {
	Given    bool
	Relative bool  // "+N": from now; else since the epoch
	Seconds  int64 // any value an agent writes; the scheduler clamps it
}

// AppendReport appends the report line r with its LF. An LF within it becomes
// a CR, which separates the lines of a report's text. A TAB in the notary fields
// becomes a blank. The text is cut so that the line fits MaxLine, and the notary
// fields are cut to half of that. A RetryAt without a number whose text begins
// with a number is written as Deferred, which means the same and cannot be
// misread.
func AppendReport(b []byte, r Report) []byte {
	start := len(b)
	b = strconv.AppendUint(b, r.Message, 10)
	b = append(b, '/')
	b = strconv.AppendInt(b, r.Offset, 10)
	b = append(b, '\t')
	notary := string(r.Notary[:min(len(r.Notary), MaxLine/2)])
	b = appendClean(b, notary, ' ', '\r')
	if isSite(r.Site) {
		for range max(1, siteField-strings.Count(notary, "\x01")) {
			b = append(b, 1)
		}
		b = append(append(b, sitePrefix...), r.Site...)
	}
	b = append(b, '\t')
	b = append(b, r.wireStatus().String()...)
	b = append(b, ' ')
	if r.Status == RetryAt && r.Retry.Given {
		if r.Retry.Relative {
			b = append(b, '+')
		}
		b = strconv.AppendInt(b, r.Retry.Seconds, 10)
		b = append(b, ' ')
	}
	b = appendClean(b, r.Text, '\t', '\r')
	if len(b)-start > MaxLine {
		b = b[:start+MaxLine]
	}
	return append(b, '\n')
}

func (r *Report) wireStatus() Status {
	if r.Status == RetryAt && !r.Retry.Given {
		if misread, _ := cutRetry(r.Text); misread.Given {
			return Deferred
		}
	}
	return r.Status
}

// A scheduler of this project sets MarkingEnv to MarkingScheduler in the environment of its
// agents. It marks what those report that have written ReportsLine first, and it takes a notary
// and a site with every report. ZMailer's scheduler keeps the notary of a job line's last
// report for its expired recipients, so it must not be sent that of a success.
const (
	MarkingEnv       = "TA_MARKING"
	MarkingScheduler = "scheduler"
)

// The site is a field after those of the notary data. It is written as the seventh,
// because old agents use the sixth, and accepted from the sixth on.
const (
	sitePrefix = "site="
	siteField  = 6
	maxSite    = 255
)

// isSite reports whether a text can be the name of a site: printable ASCII without
// blanks and without capital letters.
func isSite(s string) bool {
	if s == "" || len(s) > maxSite {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] >= 'A' && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

// cutSite takes the site off the notary fields of a report. A malformed name is
// ignored.
func cutSite(notary string) (rest, site string) {
	if !strings.Contains(notary, "\x01"+sitePrefix) {
		return notary, ""
	}
	fields := strings.Split(notary, "\x01")
	for i := siteField - 1; i < len(fields); i++ {
		name, found := strings.CutPrefix(fields[i], sitePrefix)
		if !found {
			continue
		}
		if isSite(name) {
			site = name
		}
		fields = append(fields[:i], fields[i+1:]...)
		for len(fields) > siteField-1 && fields[len(fields)-1] == "" {
			fields = fields[:len(fields)-1]
		}
		return strings.Join(fields, "\x01"), site
	}
	return notary, ""
}

// Notary is the delivery status data of a report: up to six fields separated
// by the byte 0x01, in the order of the methods below. Fewer fields are
// accepted; missing ones read as "".
type Notary string

func (n Notary) field(i int) string {
	rest := string(n)
	for ; i > 0; i-- {
		_, after, ok := strings.Cut(rest, "\x01")
		if !ok {
			return ""
		}
		rest = after
	}
	first, _, _ := strings.Cut(rest, "\x01")
	return first
}

// Recipient is the final form of the address.
func (n Notary) Recipient() string { return n.field(0) }

// WithoutRecipient returns the fields with an empty final recipient, for a report
// that counts for several recipients.
func (n Notary) WithoutRecipient() Notary {
	i := strings.IndexByte(string(n), 0x01)
	if i < 0 {
		return ""
	}
	return n[i:]
}

// Action is the delivery status action; "failed" on a deferral means nothing.
func (n Notary) Action() string { return n.field(1) }

// Code is the enhanced status code with its optional comment (RFC 3463).
func (n Notary) Code() string { return n.field(2) }

// Diagnostic is the diagnostic code: type, semicolon, text.
func (n Notary) Diagnostic() string { return n.field(3) }

// Remote is the host that was talked to.
func (n Notary) Remote() string { return n.field(4) }

// Agent is the reporting program and pid, as in smtp[1234].
func (n Notary) Agent() string { return n.field(5) }

// Fields are the parts of a Notary by name.
type Fields struct {
	Recipient  string // final form of the address
	Action     string // delivered, relayed, expanded, delayed or failed
	Code       string // enhanced status code, RFC 3463, with optional comment
	Diagnostic string // type, semicolon, text: "smtp; 550 no such user"
	Remote     string // host that was talked to: "dns; mx.example.net (192.0.2.1)"
	Agent      string // program[pid]; left out when empty
}

// Notary joins the fields. Bytes that would separate fields or lines become
// blanks.
func (f Fields) Notary() Notary {
	all := [...]string{f.Recipient, f.Action, f.Code, f.Diagnostic, f.Remote, f.Agent}
	n := len(all)
	if f.Agent == "" {
		n--
	}
	var b []byte
	for i, field := range all[:n] {
		if i > 0 {
			b = append(b, 1)
		}
		for j := 0; j < len(field); j++ {
			switch c := field[j]; c {
			case 1, '\t', '\n', '\r', 0:
				b = append(b, ' ')
			default:
				b = append(b, c)
			}
		}
	}
	return Notary(b)
}
