package ta

// This file defines the message that an agent's Deliver gets, and reports the results of its
// recipients.

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
	Job     JobLine
	ID      uint64 // number of the control file
	Session int    // number of the session that works on it, from 0
	// File shares memory with other sessions, so Deliver must not change it. Of a large
	// control file it may have no other recipients than those at the host of the job line.
	File       *ctlfile.File
	Size       int64     // of the message file
	ModifiedAt time.Time // when the message arrived: the mtime of the message file
	Recipients []Recipient

	session  *session
	openedAt time.Time        // set if there is a Syslog
	fd       int              // control file; -1: it was given to leaving
	opened   unix.Stat_t      // its state when it was opened
	path     string           // message file
	body     *postoffice.File // message file, once opened

	delivered []int64 // offsets of the recipients that were reported as delivered and that we do not mark
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

// Headers is the header block for this recipient, each line with its LF,
// without the empty line that ends a header.
func (r *Recipient) Headers() string { return r.message.File.Headers(r.index) }

// Reported reports whether the recipient has its result.
func (r *Recipient) Reported() bool { return r.done }

// Report reports the recipient's result to the scheduler, after marking the recipient if
// that is our work. DeferAll also ends all recipients that have no result. A second result is
// dropped and logged.
func (r *Recipient) Report(result Result) {
	if r.done {
		r.message.session.server.warn("%s: second result %v for the recipient at %d",
			r.message.Job.Path, result.Status, r.Offset)
		return
	}
	r.message.record([]*Recipient{r}, func(*Recipient) Result { return result })
}

// Connecting tells the scheduler which server the agent is about to connect to for the
// recipient, so that it can count the session there before there is a result.
func (r *Recipient) Connecting(site string) {
	if s := r.message.session.server; s.AllNotary && isSite(site) {
		r.message.session.out.report(Report{Message: r.message.ID, Offset: r.Offset, Status: Connecting, Site: site})
	}
}

// ReportRest gives a result to all recipients that have none. If we mark them, it waits for
// the disk once, so that a thousand failures cost little more than one.
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

// reportRest gives the same result to all recipients that have none.
func (m *Message) reportRest(res Result) { m.ReportRest(func(*Recipient) Result { return res }) }

// record marks the recipients, if that is our work, and reports them. Before the report a
// recipient has its tag; until then a scheduler that finds us dead unlocks it.
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
	var fewResults [4]Result
	var fewReports [4]Report
	results, reports := fewResults[:0], fewReports[:0]
	for _, r := range rs {
		res := m.complete(r, result(r))
		results = append(results, res)
		reports = append(reports, Report{Message: m.ID, Offset: r.Offset, Notary: res.Fields.Notary(), Status: res.Status, Text: res.Text, Retry: res.Retry})
	}
	if m.marks() {
		m.mark(rs, results, reports)
	}
	all := -1
	for i, r := range rs {
		switch {
		case results[i].Status != DeferAll:
			m.finish(r, results[i], reports[i])
		case all < 0:
			all = i
		default:
			m.end(r)
		}
	}
	// A deferall comes last: it ends the job line.
	if all >= 0 {
		m.releaseRest(rs[all])
		m.finish(rs[all], results[all], reports[all])
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

// finish logs and reports one recipient.
func (m *Message) finish(r *Recipient, res Result, report Report) {
	s := m.session.server
	if s.AllNotary {
		report.Site, report.Notary = res.Site, res.Fields.Notary()
	}
	s.Syslog.log(r, res, report)
	if !s.leaving.left { // else nobody reads reports
		m.session.out.report(report)
		if s.Marking == SchedulerMarks && (report.Status == OK || report.Status == OK3) {
			m.delivered = append(m.delivered, r.Offset)
		}
	}
	m.end(r)
}

// releaseRest ends the recipients without a result, but for the given one. A deferall
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
	if m.fd >= 0 {
		_ = postoffice.Close(m.fd)
	}
}
