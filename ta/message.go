package ta

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"zsched/ctlfile"
)

// Message is one message at one agent: a control file, and those of its
// recipients that the job line is about. It is good until Deliver returns, and
// for one goroutine at a time.
type Message struct {
	Job        Job
	ID         uint64 // number of the control file
	Session    int    // 0 … Server.Sessions-1: which of them works on it
	File       *ctlfile.File
	Size       int64     // of the message file
	ModifiedAt time.Time // mtime of the message file: the message's age
	Recipients []Recipient

	at       *session
	openedAt time.Time // if there is a Syslog
	fd       int       // control file
	path     string    // message file
	owner    int64     // who owns it, and so has submitted it; -1: it is not known
	body     *os.File  // message file, once opened
}

// Recipient is one recipient of a Message, and its result.
type Recipient struct {
	*ctlfile.Recipient
	From ctlfile.Address // its sender; the channel "error" means: from nobody

	message *Message
	index   int // in File.Recipients
	done    bool
}

// Result is what became of one recipient. Nothing in it is kept for the next.
type Result struct {
	// Status is OK, OK3, Error, Deferred, DeferBack, DeferAll or RetryAt. OK3
	// is a success of which nobody is to be told, whatever was asked for: the
	// one who has the message now will tell. OK2 and Error2 count as OK and
	// Error, anything else as Deferred.
	Status Status
	// Fields go into the notary data. An empty Recipient is filled in with
	// the user word, an empty or contradictory Action by the Status, an empty
	// Agent with the server's name and pid.
	Fields Fields
	Text   string // free text; CR or LF between lines of a transcript
	Retry  Retry  // for RetryAt
	// For the system's log: when the agent turned to the recipient, if not when
	// it got the message, and how the body was converted, as in Logged.
	Began time.Time
	Cvt   string
}

// SpoolID is the message's identity in logs.
func (m *Message) SpoolID() string { return ctlfile.SpoolID(m.ID, m.ModifiedAt) }

// Body is the message from the offset of the o line on, without its headers.
// Each call reads from the start.
func (m *Message) Body() (*io.SectionReader, error) {
	if m.File.Body < 0 {
		return nil, errors.New("the control file does not say where the body starts")
	}
	if m.body == nil {
		fd, err := openFile(m.path, syscall.O_RDONLY)
		if err != nil {
			return nil, err
		}
		m.body = os.NewFile(uintptr(fd), m.path)
	}
	return io.NewSectionReader(m.body, m.File.Body, max(m.Size-m.File.Body, 0)), nil
}

// Headers is the header block for this recipient, each line with its LF,
// without the empty line that ends a header.
func (r *Recipient) Headers() string { return r.message.File.Headers(r.index) }

// Reported says that the recipient has its result.
func (r *Recipient) Reported() bool { return r.done }

// Report settles the recipient: the d line if one is owed, the report, the
// tag. A DeferAll settles all others without a result too. A second result is
// dropped, with a word in the log.
func (r *Recipient) Report(result Result) {
	if r.done {
		r.message.at.server.warn("%s: second result %v for the recipient at %d",
			r.message.Job.Path, result.Status, r.Offset)
		return
	}
	r.message.settle([]*Recipient{r}, func(*Recipient) Result { return result })
}

// ReportRest settles all recipients without a result, with one wait for the
// disk: a thousand failures cost little more than one.
func (m *Message) ReportRest(result func(*Recipient) Result) {
	var few [4]*Recipient
	rest := few[:0]
	for i := range m.Recipients {
		if r := &m.Recipients[i]; !r.done {
			rest = append(rest, r)
		}
	}
	if len(rest) > 0 {
		m.settle(rest, result)
	}
}

// settle does what a result asks for, in this order: the d lines, on disk; the
// reports; the tags. So nothing is tagged of which the reason could be lost.
func (m *Message) settle(rs []*Recipient, result func(*Recipient) Result) {
	var few [4]Result
	results := few[:0]
	var lines []ctlfile.Diagnostic
	for _, r := range rs {
		res := m.complete(r, result(r))
		if tag := m.diagnosticTag(r, res); tag != 0 {
			lines = append(lines, ctlfile.Diagnostic{
				Tag: tag, Recipient: r.Offset, Header: r.Header, N: r.N,
				At:     time.Now(),
				Notary: string(res.Fields.Notary()), Text: res.Text,
			})
		}
		results = append(results, res)
	}
	err := ctlfile.AppendDiagnostic(m.fd, lines...)
	if err != nil {
		m.at.server.warn("%s: %v", m.Job.Path, err)
	}
	// A deferall comes last: it ends the job line.
	all := -1
	for i, r := range rs {
		if results[i].Status != DeferAll {
			m.finish(r, results[i], err)
		} else if all < 0 {
			all = i
		}
	}
	if all >= 0 {
		m.finish(rs[all], results[all], err)
	}
}

// complete brings a result into one of the forms that settle knows.
func (m *Message) complete(r *Recipient, res Result) Result {
	f := &res.Fields
	switch res.Status {
	case OK, OK2, OK3:
		if res.Status == OK2 {
			res.Status = OK
		}
		if f.Action != "relayed" && f.Action != "expanded" {
			f.Action = "delivered"
		}
	case Error, Error2:
		res.Status = Error
		f.Action = "failed"
	case DeferBack, DeferAll:
	case RetryAt:
		if !res.Retry.Given {
			res.Status = Deferred
		}
	default:
		res.Status = Deferred
	}
	if f.Action == "" {
		f.Action = "delayed"
	}
	if f.Recipient == "" {
		f.Recipient = r.User
	}
	if f.Agent == "" {
		f.Agent = m.at.agent
	}
	return res
}

// diagnosticTag is the tag of the d line that we write for a result, 0 for
// none. A success that the sender wants to hear of and that another will tell
// him of (OK3) has one too, of which nobody need be told: a recipient without a
// line counts as one whose outcome was lost.
func (m *Message) diagnosticTag(r *Recipient, res Result) ctlfile.Tag {
	switch {
	case m.owes(r, res):
		return ctlfile.Open
	case m.at.server.Marking == AgentMarks && res.Status == OK3 && r.Notify.Wants(ctlfile.NotifySuccess):
		return ctlfile.Delivered
	}
	return 0
}

// owes says whether somebody is to be told of a result: of every failure, and for a success
// that the sender wants to hear of.
func (m *Message) owes(r *Recipient, res Result) bool {
	if m.at.server.Marking == SchedulerMarks {
		return false
	}
	return res.Status == Error ||
		res.Status == OK && r.Notify.Wants(ctlfile.NotifySuccess)
}

// finish reports and tags one recipient whose d line, if it is owed one, could
// be written or not. A failure that could not be written down is not one yet:
// it is deferred. A success is one all the same, and the scheduler is asked to
// write it down (ok instead of ok2).
func (m *Message) finish(r *Recipient, res Result, lost error) {
	r.done = true
	report := Report{Message: m.ID, Offset: r.Offset, Status: res.Status, Text: res.Text, Retry: res.Retry}
	tag := ctlfile.Open
	owed := m.owes(r, res)
	switch {
	case m.at.server.Marking == SchedulerMarks:
		report.Notary = res.Fields.Notary()
	case owed && lost == nil && res.Status == OK:
		report.Status, tag = OK2, ctlfile.Delivered
	case owed && lost == nil:
		report.Status, tag = Error2, ctlfile.Failed
	case owed && res.Status == Error:
		res.Fields.Action = "delayed"
		report.Status, report.Notary = Deferred, res.Fields.Notary()
		report.Text = fmt.Sprintf("%s (and %v)", res.Text, lost)
	case owed:
		report.Notary, tag = res.Fields.Notary(), ctlfile.Delivered
	case res.Status == OK || res.Status == OK3:
		report.Status, tag = OK3, ctlfile.Delivered
	default:
		report.Notary = res.Fields.Notary()
	}
	if res.Status == DeferAll {
		m.releaseRest()
	}
	m.log(r, report)
	m.at.server.Syslog.log(r, res, report)
	m.at.out.report(report)
	if m.at.server.Marking == SchedulerMarks {
		return
	}
	if report.Status == OK {
		// Nobody has written it down yet, so the scheduler must know before
		// the tag says that all is done.
		_ = m.at.out.drain()
	}
	m.swap(r.Recipient, ctlfile.Locked, tag)
}

// releaseRest unlocks what a deferall ends. It comes before the report, which
// ends the job line.
func (m *Message) releaseRest() {
	for i := range m.Recipients {
		if r := &m.Recipients[i]; !r.done {
			r.done = true
			if m.at.server.Marking == AgentMarks {
				m.swap(r.Recipient, ctlfile.Locked, ctlfile.Open)
			}
		}
	}
}

func (m *Message) close() {
	if m.body != nil {
		_ = m.body.Close()
	}
	_ = syscall.Close(m.fd)
}
