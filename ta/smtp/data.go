// This file holds DATA: sending the message, and refusals.

package smtp

import (
	"errors"
	"time"

	"zsched/ta"
)

// sendDataCommand sends DATA.
func (t *transaction) sendDataCommand() error {
	return t.send("DATA", t.a.o.Timeouts.Data, func(r Reply) { t.dataReply, t.data = r, exchange("DATA", r) })
}

// sendData sends DATA, unless it was pipelined, and the message.
func (t *transaction) sendData() error {
	if t.dataReply.Code == 0 {
		if err := t.sendDataCommand(); err != nil {
			return err
		}
		if err := t.takeReplies(); err != nil {
			return err
		}
	}
	if t.dataReply.Code != 354 {
		t.reportAccepted(t.dataReply)
		return t.reset()
	}
	if err := t.content.send(t.s.w); err != nil {
		return t.interrupted(err)
	}
	if err := t.commit(); err != nil {
		return err
	}
	if err := t.s.send("."); err != nil {
		return t.interrupted(err)
	}
	return t.takeFinalReplies()
}

// errLeaving means that the scheduler has ended, so that the message must not be sent.
var errLeaving = errors.New("the scheduler has ended")

// commit says that the server may have the message from now on.
func (t *transaction) commit() error {
	all := make([]*ta.Recipient, len(t.states))
	for i := range t.states {
		all[i] = t.states[i].Recipient
	}
	if !t.j.message.Commit(all...) {
		return errLeaving
	}
	return nil
}

// interrupted ends a transaction whose message could not be sent completely. The
// server does not have it, and may have given the reason before it closed the
// connection.
func (t *transaction) interrupted(err error) error {
	var local *ta.ReadError
	if errors.As(err, &local) {
		return err
	}
	if r, e := t.s.readReply(min(t.a.o.Timeouts.Dot, 5*time.Second)); e == nil && r.Code >= 400 && r.Code != 421 {
		t.data += exchange("(message)", r)
		t.reportAccepted(r)
	}
	return err
}

// report reports a recipient that was refused: as an error if the reply is
// permanent, else with a temporary status.
func (t *transaction) report(r *ta.Recipient, reply Reply, text string, temporary ta.Status) {
	result := ta.Result{Status: temporary, Site: t.s.target.site(), Text: text, Fields: ta.Fields{
		Code: reply.status(), Diagnostic: reply.diagnostic(), Remote: t.s.remote(),
	}}
	switch {
	case reply.Permanent():
		result.Status = ta.Error
	case reply.Code/100 != 4:
		// A reply that makes no sense here is not a permanent refusal.
		result.Fields.Code = "4.5.0"
	}
	t.a.report(r, result)
}

// reportAll reports a refusal of MAIL.
func (t *transaction) reportAll(r Reply, text string, temporary ta.Status) {
	for _, one := range t.states {
		if !one.Reported() {
			t.report(one.Recipient, r, text, temporary)
		}
	}
}

// reportAccepted reports a refusal to the recipients whose RCPT was accepted.
func (t *transaction) reportAccepted(r Reply) {
	for _, one := range t.states {
		t.report(one.Recipient, r, t.mail+one.rcpt+t.data, ta.DeferBack)
	}
}
