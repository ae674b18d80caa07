// This file holds a transaction: MAIL, RCPT for each recipient, and the message.

package smtp

import (
	"errors"
	"time"

	"zsched/ta"
)

// transaction is one MAIL, its RCPTs and the message.
type transaction struct {
	a *Agent
	s *session
	d *delivery
	*envelope
	ext     extensions
	content *content
	by      string // BY parameter, or ""

	states    []recipientState
	mail      string    // transcript of MAIL
	data      string    // transcript of what follows the RCPTs
	answered  bool      // the server has sent a reply other than 421
	dataSent  bool      // DATA or BDAT was sent: the server may have the message
	pending   []command // sent, but not yet replied to
	refused   bool      // MAIL was refused
	dataReply Reply     // to DATA, once it has arrived
	plain     bool      // MAIL has only the parameters without which the message cannot be sent
	rejected  bool      // MAIL was refused for a parameter: the recipients get a plain transaction
}

// recipientState is the progress of a recipient in a transaction.
type recipientState struct {
	*ta.Recipient
	rcpt     string // transcript of RCPT
	accepted bool
}

// command is a command and the function that takes its reply.
type command struct {
	line    string
	timeout time.Duration
	take    func(Reply)
}

// errClosing is the reply 421: the server closes the connection.
type errClosing struct{ reply Reply }

func (e *errClosing) Error() string { return e.reply.Lines[0] }

var errUnasked = errors.New("peer sent a reply that answers no command")

// run does the transaction. It returns in again the recipients that need another
// transaction. After an error the connection can no longer be used, and some
// recipients may not have been reported.
func (t *transaction) run() (again []*ta.Recipient, err error) {
	if !t.prepare() {
		return nil, nil
	}
	if err := t.sendEnvelope(); err != nil {
		return nil, err
	}
	if t.refused {
		// Recipients that have not been reported get a plain transaction.
		return t.unreported(), t.sendNothing()
	}
	again = t.keepAccepted()
	switch {
	case len(t.states) == 0:
		err = t.sendNothing()
	case t.ext.chunking:
		err = t.sendChunk()
	default:
		err = t.sendData()
	}
	return again, err
}

// sendEnvelope sends MAIL and the RCPTs, and with pipelining DATA too.
func (t *transaction) sendEnvelope() error {
	if t.s.r.Buffered() > 0 {
		// This reply answers no command. If it were ignored, each reply would be
		// taken for the reply to the next command, and a refusal could pass for an
		// acceptance.
		return errUnasked
	}
	timeouts := &t.a.o.Timeouts
	line := t.mailCommand(t.ext, t.content, t.by)
	var mail Reply
	err := t.send(line, timeouts.mail(), func(r Reply) {
		mail, t.mail, t.refused = r, exchange(line, r), !r.OK()
	})
	for i := 0; err == nil && i < len(t.states) && !t.refused; i++ {
		one := &t.states[i]
		line := rcptCommand(t.ext, one.Recipient)
		err = t.send(line, timeouts.rcpt(), func(r Reply) {
			one.rcpt, one.accepted = exchange(line, r), r.OK() && !t.refused
			if !t.refused && !one.accepted {
				t.rcptRefused(one, r)
			}
		})
	}
	if err == nil && t.ext.pipelining && !t.ext.chunking {
		err = t.sendDataCommand()
	}
	if err == nil {
		err = t.takeReplies()
	}
	switch {
	case err != nil || !t.refused:
	case t.rejectsOffered(mail):
		t.rejected = true
	default:
		t.reportAll(mail, t.mail, ta.Deferred)
	}
	return err
}

// send sends a command. Without pipelining it takes the reply at once.
func (t *transaction) send(line string, timeout time.Duration, take func(Reply)) error {
	if err := t.s.send(line); err != nil {
		return err
	}
	t.pending = append(t.pending, command{line, timeout, take})
	if t.ext.pipelining {
		return nil
	}
	return t.takeReplies()
}

// takeReplies takes the replies to all commands that were sent.
func (t *transaction) takeReplies() error {
	pending := t.pending
	t.pending = nil
	for _, c := range pending {
		if c.line == "DATA" {
			t.dataSent = true
		}
		r, err := t.s.reply(c.timeout)
		if err != nil {
			return err
		}
		if r.Code == 421 {
			return &errClosing{r}
		}
		t.answered = true
		c.take(r)
	}
	return nil
}

// rcptRefused reports a recipient that the server refuses. If the server only
// refuses because it has accepted enough recipients, this one is not reported: it
// goes into the next transaction.
func (t *transaction) rcptRefused(one *recipientState, r Reply) {
	if r.Code == 452 || r.Code == 552 {
		for i := range t.states {
			if t.states[i].accepted {
				return
			}
		}
	}
	t.report(one.Recipient, r, t.mail+one.rcpt, ta.Deferred)
}

// rejectsOffered reports whether a server may have refused MAIL for a parameter of an
// extension that it offered. It may also have refused the address, so this concerns
// only the envelope, not the others on the same connection.
func (t *transaction) rejectsOffered(r Reply) bool {
	switch r.Code {
	case 500, 501, 504, 555:
		return !t.plain && (t.ext.sized || t.ext.dsn || t.ext.eightBit || t.ext.deliverBy)
	}
	return false
}

// necessary returns the extensions of a plain transaction: SMTPUTF8 and BY remain if
// the message cannot be sent without them.
func (t *transaction) necessary(e extensions) extensions {
	plain := extensions{pipelining: e.pipelining, utf8: e.utf8}
	if d, ok := parseBy(t.envelope.by, 0); ok && d.mode == 'R' {
		plain.deliverBy, plain.minBy = e.deliverBy, e.minBy
	}
	return plain
}

// unreported returns the recipients without a result.
func (t *transaction) unreported() (rest []*ta.Recipient) {
	for _, r := range t.recipients {
		if !r.Reported() {
			rest = append(rest, r)
		}
	}
	return rest
}

// keepAccepted keeps the recipients that the server accepted, and returns those
// that need another transaction.
func (t *transaction) keepAccepted() (again []*ta.Recipient) {
	var accepted []recipientState
	for _, one := range t.states {
		if one.accepted {
			accepted = append(accepted, one)
		} else if !one.Reported() {
			again = append(again, one.Recipient)
		}
	}
	t.states = accepted
	return again
}

// sendNothing ends a transaction without recipients. If DATA was pipelined and the
// server now waits for the message, it gets the dot alone (RFC 2920 section 3.1).
func (t *transaction) sendNothing() error {
	if t.dataReply.Code == 354 {
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
