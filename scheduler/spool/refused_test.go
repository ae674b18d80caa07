package spool

import (
	"testing"
	"time"
)

// A message that the receiver gives back is known as not loaded, and announced again.
func TestRefusedMessageIsAnnouncedAgain(t *testing.T) {
	o := newTestSpool(t)
	o.open(Options{Unwatched: true})
	o.write("transport/7", control("7", toCarol))
	o.write("queue/7", "message")
	o.age("transport/7", 0)
	m := o.loaded("7")
	first := o.s.Refuse(m.Name, "too many hosts", 0)
	if first.Why != NoRoom || first.Why.String() != "no room" || first.Tries != 1 || first.Name != m.Name {
		t.Errorf("%+v", first)
	}
	if why := o.s.WhyUnloaded(); len(why) != 1 || why["7"] != "too many hosts" {
		t.Errorf("%q", why)
	}
	if u := o.s.Unloaded(); u.Messages != 1 || time.Since(u.Since) < 0 {
		t.Errorf("%+v", u)
	}
	for names := range o.s.Found() {
		if len(names) == 1 && names[0] == m.Name {
			break
		}
	}
	// It was read meanwhile, which looks like a success.
	o.loaded("7")
	if again := o.s.Refuse(m.Name, "still too many", first.Tries); again.Tries != 2 {
		t.Errorf("%+v", again)
	}
	o.loaded("7")
	if why := o.s.WhyUnloaded(); len(why) != 0 {
		t.Errorf("after it was loaded: %q", why)
	}
}
