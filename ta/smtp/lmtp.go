// This file holds the replies to the message. SMTP has one; LMTP has one for each
// recipient (RFC 2033 section 4.2).

package smtp

import "zsched/ta"

// takeFinalReplies takes the replies to the message: one reply, or in LMTP one for
// each recipient. An acceptance is reported before anything else is done.
func (t *transaction) takeFinalReplies() error {
	before := t.data
	step := len(t.states)
	if t.a.o.LMTP {
		step = 1
	}
	for i := 0; i < len(t.states); i += step {
		r, err := t.s.reply(t.a.o.Timeouts.Dot)
		if err != nil {
			return err
		}
		t.data = before + exchange(".", r)
		if err := t.finalReply(t.states[i:i+step], r); err != nil {
			return err
		}
	}
	return nil
}

// finalReply reports what a reply to the message means for some recipients.
func (t *transaction) finalReply(states []recipientState, r Reply) error {
	if r.Code == 421 {
		return &errClosing{r}
	}
	for _, one := range states {
		if r.OK() {
			t.a.report(one.Recipient, t.accepted(one, r))
			continue
		}
		t.report(one.Recipient, r, t.mail+one.rcpt+t.data, ta.DeferBack)
	}
	return nil
}

// accepted returns the result of a recipient whose message the server has accepted.
// A server with DSN notifies the sender itself, and then we must not.
func (t *transaction) accepted(one recipientState, r Reply) ta.Result {
	status, action := ta.OK, "relayed"
	if t.ext.dsn {
		status = ta.OK3
	}
	if t.a.o.LMTP {
		action = "delivered"
	}
	return ta.Result{Status: status, Site: t.s.target.site(), Text: t.mail + one.rcpt + t.data, Fields: ta.Fields{
		Action: action, Code: r.status(), Diagnostic: r.diagnostic(), Remote: t.s.remote(),
	}}
}
