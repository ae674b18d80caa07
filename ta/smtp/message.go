package smtp

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"zsched/ta"
)

// sendData sends the message after DATA.
func (t *transaction) sendData() error {
	if t.invited.Code == 0 {
		if err := t.sayData(); err != nil {
			return err
		}
		if err := t.takeReplies(); err != nil {
			return err
		}
	}
	if t.invited.Code != 354 {
		t.reportAccepted(t.invited)
		return t.reset()
	}
	w := &stuffed{w: t.s.w}
	if err := t.content.sendTo(w); err != nil {
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
	t.stage = dataStage
	line := fmt.Sprintf("BDAT %d LAST", t.content.size)
	if err := t.s.send(line); err != nil {
		return err
	}
	w := bufio.NewWriterSize(t.s.w, 4096)
	err := t.content.sendTo(w)
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
			t.a.report(one.Recipient, t.accepted(one, r), t.cvt)
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
	t.a.report(r, result, t.cvt)
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
