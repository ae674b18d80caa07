package smtp

import (
	"errors"
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
	invited  Reply  // to DATA, once it is there
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

var errUnasked = errors.New("peer answers what it was not asked")

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
		return t.left(), t.sendNothing()
	}
	again = t.sort()
	switch {
	case len(t.lanes) == 0:
		err = t.sendNothing()
	case t.ext.chunking:
		err = t.sendChunk()
	default:
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
		if p.line == "DATA" {
			t.stage = dataStage
		}
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

// envelope does MAIL and the RCPTs, and DATA where it can go with them.
func (t *transaction) envelope() error {
	if t.s.r.Buffered() > 0 {
		// An answer to nothing: from here on each would be taken for that to
		// the command after its own, and a refusal for an acceptance.
		return errUnasked
	}
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
	if err == nil && t.ext.pipelining && !t.ext.chunking {
		err = t.sayData()
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

// sayData asks for the message.
func (t *transaction) sayData() error {
	return t.say("DATA", t.a.o.Timeouts.Data, func(r Reply) { t.invited, t.data = r, told("DATA", r) })
}

// sendNothing ends a transaction in which no recipient is left. A peer that
// was asked for the message before that was known, and wants it, gets the dot
// alone (RFC 2920 section 3.1).
func (t *transaction) sendNothing() error {
	if t.invited.Code == 354 {
		_, err := t.s.command(t.a.o.Timeouts.Dot, ".")
		return err
	}
	if t.refused {
		return nil // there is no transaction
	}
	return t.reset()
}

// reset ends a transaction without a message.
func (t *transaction) reset() error {
	_, err := t.s.command(t.a.o.Timeouts.Command, "RSET")
	return err
}
