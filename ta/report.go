package ta

import "strings"

// Status is the word by which an agent ends or postpones one recipient
// (scheduler(8), "Transport agent interface").
type Status uint8

// The status words. An agent's own exit codes never travel on the wire.
const (
	// OK: delivered. The scheduler writes the diagnostic, if one is owed.
	OK Status = iota + 1
	// OK2: delivered, and the agent has appended the diagnostic.
	OK2
	// OK3: delivered, nobody asked to be told.
	OK3
	// Error: failed for good. The scheduler writes the diagnostic.
	Error
	// Error2: failed for good, and the agent has appended the diagnostic.
	Error2
	// Deferred: try this recipient again later.
	Deferred
	// DeferBack: as Deferred; sent when a connection was lost late.
	DeferBack
	// DeferAll: the destination failed; every unreported recipient of the
	// job line is deferred with this one.
	DeferAll
	// RetryAt: as Deferred, and the destination says when (see Report.Retry).
	RetryAt
)

// Report is one agent's word about one recipient: a line
//
//	id "/" offset TAB notary TAB status SP message LF
//
// The zero value is no valid report.
type Report struct {
	Message uint64 // number of the control file
	Offset  int64  // recipient's identity: byte offset of its r (or X) line
	Notary  Notary // as on the wire, "" when absent
	Status  Status
	Text    string // free text; CR separates the lines of a transcript
	Retry   Retry  // for RetryAt only
}

// Retry is the number that a retryat report carries. The zero value means
// that none was given, which makes the report a plain deferral.
type Retry struct {
	Given    bool
	Relative bool  // "+N": from now; else since the epoch
	Seconds  int64 // may be anything an agent says; the scheduler clamps it
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
