package ctlfile

import "testing"

// TestOutcomeIsDeliveredOnlyIfItWas: a recipient that was killed or sent elsewhere has the
// tag of one that was delivered, and a d line that says so.
func TestOutcomeIsDeliveredOnlyIfItWas(t *testing.T) {
	f := &File{}
	channel := "smtp"
	add := func(class int, tag Tag, notary, text string) {
		offset := int64(100 * (len(f.Recipients) + 1))
		f.Recipients = append(f.Recipients, Recipient{Offset: offset, Class: class, Tag: tag, Address: Address{Channel: channel}})
		if text != "" {
			f.Diagnostics = append(f.Diagnostics, Diagnostic{Recipient: offset, Notary: notary, Text: text})
		}
	}
	var want []string
	for _, c := range []struct {
		class        int
		tag          Tag
		notary, text string
		want         string
	}{
		{0, Open, "u\x01delayed", "later", ""},
		{0, Delivered, "", "", "delivered"},
		{0, Delivered, "u\x01delivered\x012.0.0", "ok", "delivered"},
		{0, Delivered, "u\x01delivered", NobodyIsTold, "done"},
		{0, Delivered, "u\x01" + Killed.Action(), "killed by order", "killed"},
		{0, Delivered, "u\x01delivered (somehow)", "x", "delivered"},
		{0, Failed, "u\x01failed\x015.1.1 (bad destination mailbox address)", "no such user", "failed"},
		{0, Failed, "u\x01failed\x014.4.7 (delivery time expired)", "expired after 3d", "expired"},
		{0, Failed, "", "", "failed"},
		{1, Failed, "", "", "failed"},
		{1, Delivered, "", "", "delivered"},
		{1, Open, "", "", "done"},
		{2, Delivered, "", "", "done"},
		{2, Delivered, "", "", "done"},
		{3, Open, "", "", ""},
	} {
		add(c.class, c.tag, c.notary, c.text)
		want = append(want, c.want)
	}
	channel = "XFER"
	add(0, Delivered, "u\x01delivered\x012.0.0", "moved to mx2")
	add(0, Delivered, "u\x01"+Killed.Action(), "killed by order")
	add(0, Failed, "u\x01failed", "no such node")
	want = append(want, "moved", "killed", "failed")
	for i, want := range want {
		if got := f.Outcome(i); got != want {
			t.Errorf("recipient %d: %q, want %q", i, got, want)
		}
	}
}
