// This file holds a transaction: MAIL, RCPT for each recipient, and the message.

package smtp

import (
	"errors"
	"fmt"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// transaction is one MAIL, its RCPTs and the message.
type transaction struct {
	a *Agent
	s *session
	j *job
	*envelope
	ext     extensions
	content *content

	states    []recipientState
	mail      string    // transcript of MAIL
	data      string    // transcript of what follows the RCPTs
	answered  bool      // the server has sent a reply other than 421
	dataSent  bool      // DATA was sent: the server may have the message
	pending   []command // sent, but not yet replied to
	refused   bool      // MAIL was refused
	dataReply Reply     // to DATA, once it has arrived
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

// prepare prepares the envelope and the content, and reports the recipients to whom
// nothing can be sent. It returns false if no other recipient is left.
func (t *transaction) prepare() bool {
	t.ext = t.s.ext
	var failed *failure
	switch {
	case t.from != "" && !validAddress(t.from):
		failed = unsendable("5.1.7", "the sender's address cannot be sent")
	case t.utf8 && !t.ext.utf8:
		failed = unsendable("5.6.7", "an address or the header is not ASCII, but the next host accepts only ASCII")
	}
	if failed == nil {
		failed = t.prepareContent()
	}
	for _, r := range t.recipients {
		switch {
		case failed != nil:
			t.a.report(r, failed.result(ta.Deferred))
		case !validAddress(ctlfile.Unbracketed(r.User)):
			t.a.report(r, unsendable("5.1.3", "the recipient's address cannot be sent").result(ta.Error))
		default:
			t.states = append(t.states, recipientState{Recipient: r})
		}
	}
	return len(t.states) > 0
}

// unsendable is a permanent failure that the agent itself finds.
func unsendable(code, text string) *failure {
	return &failure{permanent: true, code: code, diagnostic: "smtp; 550 (" + text + ")", text: text}
}

// prepareContent opens the message. A server without 8BITMIME gets it as it is.
func (t *transaction) prepareContent() *failure {
	body, err := t.j.message.Body()
	if err != nil {
		return &failure{code: "4.3.0", diagnostic: "x-local; 430 (" + err.Error() + ")", text: err.Error()}
	}
	t.content = newContent(t.header, body)
	if size := t.content.size(); t.ext.size > 0 && size > t.ext.size {
		return unsendable("5.3.4", fmt.Sprintf("the message has %d bytes, but the next host accepts no more than %d", size, t.ext.size))
	}
	return nil
}

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
	again = t.keepAccepted()
	if len(t.states) == 0 {
		return again, t.sendNothing()
	}
	return again, t.sendData()
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
	line := t.mailCommand(t.ext, t.content)
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
	if err == nil && t.ext.pipelining {
		err = t.sendDataCommand()
	}
	if err == nil {
		err = t.takeReplies()
	}
	if err == nil && t.refused {
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
