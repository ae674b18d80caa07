package main

import (
	"io"
	"strings"
	"testing"

	"zsched/scheduler/view"
)

// TestDifferentTargetsRestrictEachOther: targets of one kind are alternatives, and what is
// selected by targets of different kinds must match each kind.
func TestDifferentTargetsRestrictEachOther(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"kill smtp/wake.example sender=eve@e.example", "KILL WHERE thread=smtp/wake.example sender=eve@e.example"},
		{"hold 1 smtp/x", "HOLD WHERE thread=smtp/x msg=1"},
		{"hold 1 --for 1d12h smtp/x", "HOLD WHERE thread=smtp/x msg=1 FOR 1d12h"},
		{"requeue 1 2 smtp/x smtp/y older=1h host=x", "REQUEUE WHERE thread=smtp/x thread=smtp/y msg=1 msg=2 host=x older=1h"},
		{"reroute --to a/b smtp/x sender=<>", "REROUTE WHERE thread=smtp/x sender=<> TO a b"},
		{"move --to MX2 1 sender=<>", "REROUTE WHERE msg=1 sender=<> TO xfer mx2"},
		{"retry smtp/x smtp/y", "RETRY THREAD smtp x; RETRY THREAD smtp y"},
		{"retry 1 2", "RETRY MSG 1; RETRY MSG 2"},
		{"retry M/K/860194", "RETRY MSG M/K/860194"},
		{"retry local/860194", "RETRY THREAD local 860194"},
		{"retry local/fred=x", "RETRY THREAD local fred=x"},
		{"retry reason=a/b", "RETRY WHERE reason=a/b"},
		{"retry sender=<> host=x", "RETRY WHERE host=x sender=<>"},
		{"lift smtp/x smtp/y", "LIFT THREAD smtp x; LIFT THREAD smtp y"},
	} {
		p := &program{options: new(options), asker: asker{stderr: io.Discard}}
		var got []string
		for _, c := range newCommands(p, io.Discard, io.Discard).Commands() {
			args := strings.Fields(test.args)
			if c.Name() != args[0] {
				continue
			}
			if err := c.ParseFlags(args[1:]); err != nil {
				t.Fatal(test.args, err)
			}
			p.order.Verb = view.Verb(strings.ToUpper(strings.Replace(c.Name(), "move", "reroute", 1)))
			orders, err := p.parseOrders(c.Flags().Args())
			if err != nil {
				t.Fatal(test.args, err)
			}
			for i := range orders {
				got = append(got, orders[i].String())
			}
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
	}
}

// An argument that names nothing, or seems to name several, is refused.
func TestTargetsAreRefused(t *testing.T) {
	for _, arg := range []string{"", "smtp/", "/x", "smtp/*.example", "S86*", "<id@host>"} {
		if _, err := parseTargets([]string{arg}); err == nil {
			t.Errorf("%q is taken", arg)
		}
	}
}
