// This file holds DATA, and BDAT in place of it (CHUNKING, RFC 3030): sending the message,
// and refusals.

package smtp

import (
	"errors"
	"fmt"
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
	if err := t.content.sendDotted(t.s.w); err != nil {
		return t.interrupted(err)
	}
	if err := t.commit(); err != nil {
		return err
	}
	if err := t.s.send("."); err != nil {
		return t.interrupted(err)
	}
	return t.takeFinalReplies(".")
}

// sendChunk sends a message that is in memory as one chunk, preceded by its length. Without
// it the MAIL and the RCPTs would wait for the reply to DATA if the server does not pipeline.
func (t *transaction) sendChunk() error {
	t.dataSent = true
	line := fmt.Sprintf("BDAT %d LAST", len(t.content.text))
	t.s.trace(ours, line)
	if err := t.commit(); err != nil {
		return err
	}
	if _, err := t.s.w.Write(append([]byte(line+"\r\n"), t.content.text...)); err != nil {
		return t.interrupted(err)
	}
	return t.takeFinalReplies(line)
}

var errNoChunking = errors.New("peer offers CHUNKING but does not know BDAT")

// rejectsChunk reports whether a reply to BDAT says that the server does not know
// it although it offered CHUNKING, and remembers that: the next attempt uses DATA.
// The server took the message for commands. It has not received the message, and
// the connection can no longer be used.
func (t *transaction) rejectsChunk(r Reply) bool {
	if !t.ext.chunking || r.Code != 500 && r.Code != 502 {
		return false
	}
	t.a.noChunking.Store(t.s.target.name, true)
	return true
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
	var local *localError
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
