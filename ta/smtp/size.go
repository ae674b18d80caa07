// This file holds the checks and preparations before MAIL: addresses and SIZE.

package smtp

import (
	"fmt"
	"time"

	"zsched/ta"
)

// prepare prepares the envelope and the content, and reports the recipients to whom
// nothing can be sent. It returns false if no other recipient is left.
func (t *transaction) prepare() bool {
	t.ext = t.s.ext
	if t.a.pool.record(t.s.target.name).NoChunking {
		t.ext.chunking = false
	}
	if t.plain {
		t.ext = t.necessary(t.ext)
	}
	var failed *failure
	switch {
	case t.from != "" && !validAddress(t.from):
		failed = unsendable("5.1.7", "the sender's address cannot be sent")
	case t.utf8 && !t.ext.utf8:
		failed = unsendable("5.6.7", "an address is not ASCII, but the next host accepts only those that are")
	}
	if failed == nil {
		t.by, failed = t.byParameter(t.ext, time.Since(t.d.message.ModifiedAt))
	}
	if failed == nil {
		failed = t.prepareContent()
	}
	for _, r := range t.recipients {
		switch {
		case failed != nil:
			t.a.report(r, failed.result(ta.Deferred))
		case !validAddress(withoutBrackets(r.User)):
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

// prepareContent measures the message. A server without 8BITMIME gets it as it is.
func (t *transaction) prepareContent() *failure {
	c, err := t.d.content(t.header, &t.a.buffers)
	switch {
	case err != nil:
		return &failure{code: "4.3.0", diagnostic: "x-local; 430 (" + err.Error() + ")", text: err.Error()}
	case t.ext.size > 0 && c.size > t.ext.size:
		return unsendable("5.3.4", fmt.Sprintf("the message has %d bytes, but the next host accepts no more than %d", c.size, t.ext.size))
	}
	t.content = c
	return nil
}

// content returns the message with a header, measured. It keeps the result for further
// transactions of the delivery.
func (d *delivery) content(header string, b *buffers) (*content, error) {
	if c := d.contents[header]; c != nil {
		return c, nil
	}
	body, err := d.message.Body()
	if err != nil {
		return nil, &localError{err}
	}
	c, err := measure(header, body, b)
	if err != nil {
		return nil, err
	}
	if d.contents == nil {
		d.contents = map[string]*content{}
	}
	d.contents[header] = c
	return c, nil
}
