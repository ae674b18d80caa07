package smtp

import (
	"errors"
	"fmt"
	"time"

	"zsched/ta"
)

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
			t.a.report(r, failed.result(ta.Deferred), t.cvt)
		case !validAddress(bare(r.User)):
			t.a.report(r, t.cannot("5.1.3", "the recipient's address cannot be sent").result(ta.Error), t.cvt)
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
