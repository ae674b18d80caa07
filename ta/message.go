package ta

// This file defines the message that an agent's Deliver gets, and records the
// result of a recipient: diagnostic, report, tag.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Message is what one job line asks for: a control file, and the recipients in
// it that the line selects. It is valid until Deliver returns. Only one goroutine
// at a time may use it.
type Message struct {
	Job     Job
	ID      uint64 // number of the control file
	Session int    // number of the session that works on it, from 0
	// File may be shared with other sessions, so Deliver must not change it. The
	// states and delay fields in it may be old; those in Recipients are of now.
	File       *ctlfile.File
	Size       int64     // of the message file
	ModifiedAt time.Time // when the message arrived: the mtime of the message file
	Recipients []Recipient

	session  *session
	openedAt time.Time        // set if there is a Syslog
	fd       int              // control file
	opened   unix.Stat_t      // its state when it was opened
	old      bool             // File was read by an earlier job line
	path     string           // message file
	owner    int64            // uid of its owner, who submitted it; -1: not known
	body     *postoffice.File // message file, once opened
}

// Recipient is one recipient of a Message.
type Recipient struct {
	*ctlfile.Recipient
	From ctlfile.Address // its sender; the channel "error" is the null sender

	message *Message
	index   int // in File.Recipients
	done    bool
	// committed says that it may be delivered (Commit). After the end of the scheduler it
	// says that we have locked it.
	committed bool
}

// Result is the outcome of one recipient.
type Result struct {
	// Status is OK, OK3, Error, Deferred, DeferBack, DeferAll or RetryAt. With
	// OK3 we do not notify the sender of the success, even if that was asked
	// for: the next host does. OK2 and Error2 count as OK and Error,
	// anything else as Deferred.
	Status Status
	// Fields become the notary data. An empty Recipient becomes the user word,
	// an empty or contradictory Action follows from the Status, and an empty
	// Agent becomes the server's name and pid.
	Fields Fields
	Text   string // free text; CR or LF between lines of a transcript
	Retry  Retry  // for RetryAt
	// Moved says that the recipient now belongs to another node (OK3). A d line that is
	// marked as reported says so, because only that node sends notices.
	Moved bool
	// Site is the server of the session, in lower case; "": not known, or there was
	// no session.
	Site string
	// Began is when work on the recipient began, for the system's log; zero: when the
	// message was opened.
	Began time.Time
}

// SpoolID is the message's identity in logs.
func (m *Message) SpoolID() string { return ctlfile.SpoolID(m.ID, m.ModifiedAt) }

// Body is the message file from the offset of the o line on: the message
// without its header. Each call returns a reader at the start.
func (m *Message) Body() (*io.SectionReader, error) {
	if m.File.Body < 0 {
		return nil, errors.New("the control file does not say where the body starts")
	}
	return m.section(m.File.Body)
}

// Whole is the message file from its first byte on. Each call returns a reader at the
// start.
func (m *Message) Whole() (*io.SectionReader, error) { return m.section(0) }

// section is the message file from an offset on.
func (m *Message) section(offset int64) (*io.SectionReader, error) {
	if m.body == nil {
		body, err := postoffice.OpenFile(m.path, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		if m.moved() {
			// The scheduler that started us may have ended, and so may the message; then
			// its number, an inode number, may now belong to another message.
			_ = body.Close()
			return nil, fmt.Errorf("open %s: the control file is gone", m.path)
		}
		m.body = body
	}
	return io.NewSectionReader(m.body, offset, max(m.Size-offset, 0)), nil
}

// Index is the recipient's index in File.Recipients.
func (r *Recipient) Index() int { return r.index }

// Owner is the uid of the message file.
func (m *Message) Owner() uint32 { return uint32(max(m.owner, 0)) }

// Headers is the header block for this recipient, each line with its LF,
// without the empty line that ends a header.
func (r *Recipient) Headers() string { return r.message.File.Headers(r.index) }

// Reported reports whether the recipient has its result.
func (r *Recipient) Reported() bool { return r.done }

// Report records the recipient's result: it writes the d line if the sender is
// owed a notice, reports to the scheduler, and tags the recipient. DeferAll also
// ends all recipients that have no result. A second result is dropped and logged.
func (r *Recipient) Report(result Result) {
	if r.done {
		r.message.session.server.warn("%s: second result %v for the recipient at %d",
			r.message.Job.Path, result.Status, r.Offset)
		return
	}
	r.message.record([]*Recipient{r}, func(*Recipient) Result { return result })
}

// ReportRest gives a result to all recipients that have none. It waits for the
// disk once, so that a thousand failures cost little more than one.
func (m *Message) ReportRest(result func(*Recipient) Result) {
	var few [4]*Recipient
	rest := few[:0]
	for i := range m.Recipients {
		if r := &m.Recipients[i]; !r.done {
			rest = append(rest, r)
		}
	}
	if len(rest) > 0 {
		m.record(rest, result)
	}
}

// record writes the d lines to disk, then the reports, then the tags. In this
// order, the reason of a tagged recipient is always on disk.
func (m *Message) record(rs []*Recipient, result func(*Recipient) Result) {
	l := &m.session.server.leaving
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.left {
		rs = slices.DeleteFunc(rs, func(r *Recipient) bool {
			r.done = r.done || !r.committed // it was dropped
			return r.done
		})
	}
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
	sync := m.session.server.SyncData
	if sync == nil {
		sync = postoffice.SyncData
	}
	err := ctlfile.AppendDiagnosticWith(sync, m.fd, lines...)
	if err != nil {
		m.session.server.warn("%s: %v", m.Job.Path, err)
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

// complete fills in what a result leaves open.
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
		f.Agent = m.session.agent
	}
	return res
}

// diagnosticTag is the tag of the d line that we write for a result; 0 means
// that we write none. If the sender wants a notice of success and the next host
// will send it (OK3), we write a line that is marked as reported: a recipient
// without a line counts as one whose outcome was lost.
func (m *Message) diagnosticTag(r *Recipient, res Result) ctlfile.Tag {
	switch {
	case m.owes(r, res):
		return ctlfile.Open
	case m.marks() && res.Status == OK3 && (res.Moved || r.Notify.Wants(ctlfile.NotifySuccess)):
		return ctlfile.Delivered
	}
	return 0
}

// owes reports whether the sender is owed a notice: of every failure, and of a
// success if the sender wants that.
func (m *Message) owes(r *Recipient, res Result) bool {
	if !m.marks() {
		return false
	}
	return res.Status == Error ||
		res.Status == OK && r.Notify.Wants(ctlfile.NotifySuccess)
}

// finish reports and tags one recipient. lost is the error of AppendDiagnostic,
// if any. A failure without its d line becomes a deferral. A success without its
// d line is still a success, and the report asks the scheduler to write the line
// (ok instead of ok2).
func (m *Message) finish(r *Recipient, res Result, lost error) {
	report := Report{Message: m.ID, Offset: r.Offset, Status: res.Status, Text: res.Text, Retry: res.Retry}
	tag := ctlfile.Open
	owed := m.owes(r, res)
	switch {
	case !m.marks():
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
	if m.session.server.AllNotary {
		report.Site = res.Site
		report.Notary = res.Fields.Notary()
	}
	if res.Status == DeferAll {
		m.releaseRest(r)
	}
	m.logVerbose(r, report)
	m.session.server.Syslog.log(r, res, report)
	switch left := m.session.server.leaving.left; {
	case left: // nobody reads reports
	case m.marks() && report.Status == OK:
		// No d line is on disk yet, so the scheduler must know before the tag
		// says that nothing is left to do.
		m.session.out.report(report)
		_ = m.session.out.drain()
	default:
		m.session.out.report(report)
	}
	if m.marks() {
		m.swap(r.Recipient, ctlfile.Locked, tag)
	} else if m.session.server.Reports && (report.Status == OK || report.Status == OK3) {
		m.remember(r)
	}
	m.end(r)
}

// releaseRest unlocks the recipients without a result, but for the given one. A deferall
// calls it before the report, which ends the job line.
func (m *Message) releaseRest(but *Recipient) {
	for i := range m.Recipients {
		if r := &m.Recipients[i]; !r.done && r != but {
			if m.marks() {
				m.swap(r.Recipient, ctlfile.Locked, ctlfile.Open)
			}
			m.end(r)
		}
	}
}

func (m *Message) close() {
	if m.body != nil {
		_ = m.body.Close()
	}
	_ = postoffice.Close(m.fd)
}
