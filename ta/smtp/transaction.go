package smtp

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/ta"
)

// transaction is one MAIL, its RCPTs and the message.
type transaction struct {
	a *Agent
	s *session
	w *work
	*group
	ext     extensions
	content *content
	cvt     string // how the content was converted, for the log
	by      string

	lanes    []lane
	mail     string // transcript of MAIL
	data     string // transcript of what came after the RCPTs
	answered bool   // the peer has answered something, and not with 421
	stage    stage
	pending  []step // sent and not answered
	refused  bool   // MAIL was
}

// lane is one recipient's way through the transaction.
type lane struct {
	*ta.Recipient
	told     string // transcript of RCPT
	accepted bool
}

// stage is how far a transaction has come.
type stage uint8

const (
	envelopeStage stage = iota
	dataStage           // DATA or BDAT is sent: the peer may have it all
)

// step is a command and what is done with its reply.
type step struct {
	line  string
	limit time.Duration
	take  func(Reply)
}

// errClosing is a peer that said 421: nothing more comes of the connection.
type errClosing struct{ reply Reply }

func (e *errClosing) Error() string { return e.reply.Lines[0] }

// run does the transaction. Recipients that the peer wants in another one come
// back. With an error the connection is no longer of use, and recipients may
// be without a result.
func (t *transaction) run() (again []*ta.Recipient, err error) {
	if !t.prepare() {
		return nil, nil
	}
	if err := t.envelope(); err != nil {
		return nil, err
	}
	if t.refused {
		// What has no result is tried again with a peer that offers nothing.
		return t.left(), nil
	}
	again = t.sort()
	if len(t.lanes) == 0 {
		return again, t.reset()
	}
	t.stage = dataStage
	if t.ext.chunking {
		err = t.sendChunk()
	} else {
		err = t.sendData()
	}
	return again, err
}

// say sends a command. Without pipelining its reply is taken at once.
func (t *transaction) say(line string, limit time.Duration, take func(Reply)) error {
	if err := t.s.send(line); err != nil {
		return err
	}
	t.pending = append(t.pending, step{line, limit, take})
	if t.ext.pipelining {
		return nil
	}
	return t.takeReplies()
}

// takeReplies takes the replies to all that was sent.
func (t *transaction) takeReplies() error {
	pending := t.pending
	t.pending = nil
	for _, p := range pending {
		r, err := t.s.reply(p.limit)
		if err != nil {
			return err
		}
		if r.Code == 421 {
			return &errClosing{r}
		}
		t.answered = true
		p.take(r)
	}
	return nil
}

// told is a command and its reply as a report has them.
func told(line string, r Reply) string {
	var b strings.Builder
	b.WriteString("\r<<- " + line)
	for _, l := range r.Lines {
		b.WriteString("\r->> " + l)
	}
	return b.String()
}

// envelope does MAIL and the RCPTs.
func (t *transaction) envelope() error {
	limits := &t.a.o.Timeouts
	line := t.mailCommand(t.ext, t.content, t.by)
	var mail Reply
	err := t.say(line, limits.mail(), func(r Reply) {
		mail, t.mail, t.refused = r, told(line, r), !r.OK()
	})
	for i := 0; err == nil && i < len(t.lanes) && !t.refused; i++ {
		one := &t.lanes[i]
		line := rcptCommand(t.ext, one.Recipient)
		err = t.say(line, limits.rcpt(), func(r Reply) {
			one.told, one.accepted = told(line, r), r.OK() && !t.refused
			if !t.refused && !one.accepted {
				t.rcptRefused(one, r)
			}
		})
	}
	if err == nil {
		err = t.takeReplies()
	}
	switch {
	case err != nil || !t.refused:
	case t.lies(mail):
		t.s.ext = extensions{pipelining: t.ext.pipelining}
	default:
		t.reportAll(mail, t.mail, ta.Deferred)
	}
	return err
}

// rcptRefused reports a recipient that the peer does not take, except where it
// only has enough of them: those are taken in the next transaction.
func (t *transaction) rcptRefused(one *lane, r Reply) {
	if r.Code == 452 || r.Code == 552 {
		for i := range t.lanes {
			if t.lanes[i].accepted {
				return
			}
		}
	}
	t.report(one.Recipient, r, t.mail+one.told, ta.Deferred)
}

// lies says that a peer refused MAIL for a parameter that it had offered.
func (t *transaction) lies(r Reply) bool {
	switch r.Code {
	case 500, 501, 504, 555:
		return t.ext.sized || t.ext.dsn || t.ext.eightBit || t.ext.utf8
	}
	return false
}

// left are the recipients without a result.
func (t *transaction) left() (left []*ta.Recipient) {
	for _, r := range t.recipients {
		if !r.Reported() {
			left = append(left, r)
		}
	}
	return left
}

// sort keeps the lanes that the peer accepted, and returns the recipients that
// it wants in another transaction.
func (t *transaction) sort() (again []*ta.Recipient) {
	var accepted []lane
	for _, one := range t.lanes {
		if one.accepted {
			accepted = append(accepted, one)
		} else if !one.Reported() {
			again = append(again, one.Recipient)
		}
	}
	t.lanes = accepted
	return again
}

// reset ends a transaction without a message.
func (t *transaction) reset() error {
	_, err := t.s.command(t.a.o.Timeouts.Command, "RSET")
	return err
}

// sendData sends the message after DATA.
func (t *transaction) sendData() error {
	limits := &t.a.o.Timeouts
	r, err := t.s.command(limits.Data, "DATA")
	if err != nil {
		return err
	}
	t.data = told("DATA", r)
	switch {
	case r.Code == 421:
		return &errClosing{r}
	case r.Code != 354:
		t.reportAccepted(r)
		return t.reset()
	}
	w := &stuffed{w: t.s.w}
	if err := t.content.writeTo(&exactly{w, t.content.size}); err != nil {
		return t.cutShort(err)
	}
	if err := t.s.send("."); err != nil {
		return t.cutShort(err)
	}
	return t.takeVerdict(".")
}

// sendChunk sends the message in one piece whose length is said before
// (RFC 3030).
func (t *transaction) sendChunk() error {
	line := fmt.Sprintf("BDAT %d LAST", t.content.size)
	if err := t.s.send(line); err != nil {
		return err
	}
	w := bufio.NewWriterSize(t.s.w, 4096)
	rest := &exactly{w, t.content.size}
	err := t.content.writeTo(rest)
	if err == nil && rest.left > 0 {
		err = &localError{errChanged}
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return t.cutShort(err)
	}
	return t.takeVerdict(line)
}

// cutShort is a message that could not be sent whole. A peer may have said why
// before it closed; it has not got the message in any case.
func (t *transaction) cutShort(err error) error {
	var local *localError
	if errors.As(err, &local) {
		return err
	}
	if r, e := t.s.readReply(min(t.a.o.Timeouts.Dot, 5*time.Second)); e == nil && r.Code >= 400 && r.Code != 421 {
		t.data += told("(message)", r)
		t.reportAccepted(r)
	}
	return err
}

// takeVerdict takes the reply to the message: one for each recipient in LMTP.
// An acceptance is reported before anything else is done.
func (t *transaction) takeVerdict(line string) error {
	before := t.data
	if !t.a.o.LMTP {
		r, err := t.s.reply(t.a.o.Timeouts.Dot)
		if err != nil {
			return err
		}
		t.data = before + told(line, r)
		return t.verdict(t.lanes, r)
	}
	for i := range t.lanes {
		r, err := t.s.reply(t.a.o.Timeouts.Dot)
		if err != nil {
			return err
		}
		t.data = before + told(line, r)
		if err := t.verdict(t.lanes[i:i+1], r); err != nil {
			return err
		}
	}
	return nil
}

// verdict reports what a reply to the message means for some recipients.
func (t *transaction) verdict(lanes []lane, r Reply) error {
	switch {
	case r.Code == 421:
		return &errClosing{r}
	case t.ext.chunking && (r.Code == 500 || r.Code == 502):
		// It offered BDAT and took the message for commands: whatever it
		// made of them, it has no message, and is not to be trusted further.
		t.a.pool.noteRecord(t.s.target.name, func(d *Record) { d.NoChunking = true })
		return errNoChunking
	}
	for _, one := range lanes {
		if r.OK() {
			t.a.report(one.Recipient, t.w, t.accepted(one, r), t.cvt)
			continue
		}
		t.report(one.Recipient, r, t.mail+one.told+t.data, ta.DeferBack)
	}
	return nil
}

var errNoChunking = errors.New("peer offers CHUNKING and does not know BDAT")

// accepted is the result of a recipient whose message the peer has taken. Who
// knows of delivery notices tells the sender itself, and then nobody else is
// to.
func (t *transaction) accepted(one lane, r Reply) ta.Result {
	status, action := ta.OK, "relayed"
	if t.ext.dsn {
		status = ta.OK3
	}
	if t.a.o.LMTP {
		action = "delivered"
	}
	return ta.Result{Status: status, Text: t.mail + one.told + t.data, Fields: ta.Fields{
		Action: action, Code: r.status(), Diagnostic: r.diagnostic(), Remote: t.s.remote(),
	}}
}

// report is the result of a recipient that was refused: for good, or as the
// status says for now.
func (t *transaction) report(r *ta.Recipient, reply Reply, text string, now ta.Status) {
	result := ta.Result{Status: now, Text: text, Fields: ta.Fields{
		Code: reply.status(), Diagnostic: reply.diagnostic(), Remote: t.s.remote(),
	}}
	switch {
	case reply.Permanent():
		result.Status = ta.Error
	case reply.Code/100 != 4:
		// It makes no sense, so it is no answer for good.
		result.Fields.Code = "4.5.0"
	}
	t.a.report(r, t.w, result, t.cvt)
}

func (t *transaction) reportAll(r Reply, text string, now ta.Status) {
	for _, one := range t.lanes {
		if !one.Reported() {
			t.report(one.Recipient, r, text, now)
		}
	}
}

// reportAccepted reports a refusal to those whose RCPT was accepted.
func (t *transaction) reportAccepted(r Reply) {
	for _, one := range t.lanes {
		t.report(one.Recipient, r, t.mail+one.told+t.data, ta.DeferBack)
	}
}

// prepare makes ready what is sent. Recipients that cannot be sent to are
// reported; it is false with none left.
func (t *transaction) prepare() bool {
	t.ext = t.s.ext
	if t.a.pool.record(t.s.target.name).NoChunking {
		t.ext.chunking = false
	}
	var failed *failure
	switch {
	case t.from != "" && !validAddress(t.from):
		failed = t.cannot("5.1.7", "the sender's address cannot be sent")
	case t.utf8 && !t.ext.utf8:
		failed = t.cannot("5.6.7", "an address is beyond ASCII, and the next host does not take those")
	}
	if failed == nil {
		t.by, failed = t.deadline(t.ext, time.Since(t.w.message.ModifiedAt))
	}
	if failed == nil {
		failed = t.prepareContent()
	}
	for _, r := range t.recipients {
		switch {
		case failed != nil:
			t.a.report(r, t.w, failed.result(ta.Deferred), t.cvt)
		case !validAddress(bare(r.User)):
			t.a.report(r, t.w, t.cannot("5.1.3", "the recipient's address cannot be sent").result(ta.Error), t.cvt)
		default:
			t.lanes = append(t.lanes, lane{Recipient: r})
		}
	}
	return len(t.lanes) > 0
}

// cannot is a failure for good of our own making.
func (t *transaction) cannot(code, text string) *failure {
	return &failure{permanent: true, code: code, diagnostic: "smtp; 550 (" + text + ")", text: text}
}

// prepareContent measures the message and converts it where the peer takes no
// eight bits.
func (t *transaction) prepareContent() *failure {
	o := &t.a.o
	how := ta.Conversion{KeepHeader: o.KeepHeaders}
	if !t.ext.eightBit && (!o.EightClean || o.No.EightBit) {
		how.To = ta.SevenBit
	}
	c, err := t.w.content(t.header, how)
	var local *localError
	switch {
	case errors.As(err, &local):
		return &failure{code: "4.3.0", diagnostic: "x-local; 430 (" + local.Error() + ")", text: local.Error()}
	case err != nil:
		return t.cannot("5.6.3", "the next host takes no eight bits: "+err.Error())
	case t.ext.size > 0 && c.size > t.ext.size:
		return t.cannot("5.3.4", fmt.Sprintf("a message of %d bytes is larger than the %d that the next host takes", c.size, t.ext.size))
	}
	t.content, t.cvt = c, c.plan.Cvt
	return nil
}
