package main

import (
	"strings"
	"testing"
)

// TestDifferentSelectionsRestrictEachOther: options of one kind are alternatives, and what
// is selected by options of different kinds must match each kind.
func TestDifferentSelectionsRestrictEachOther(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--kill --thread smtp/wake.example --where sender=eve@e.example", "KILL WHERE thread=smtp/wake.example sender=eve@e.example"},
		{"--hold --msg 1 --thread smtp/x", "HOLD WHERE thread=smtp/x msg=1"},
		{"--requeue --msg 1 --msg 2 --thread smtp/x --thread smtp/y --where older=1h --where host=x",
			"REQUEUE WHERE thread=smtp/x thread=smtp/y msg=1 msg=2 host=x older=1h"},
		{"--reroute a/b --thread smtp/x --where sender=<>", "REROUTE WHERE thread=smtp/x sender=<> TO a b"},
		{"--move --to mx2 --msg 1 --where sender=<>", "REROUTE WHERE msg=1 sender=<> TO xfer mx2"},
		{"--retry --thread smtp/x --thread smtp/y", "RETRY THREAD smtp x; RETRY THREAD smtp y"},
		{"--retry --msg 1 --msg 2", "RETRY MSG 1; RETRY MSG 2"},
		{"--retry --where sender=<> --where host=x", "RETRY WHERE host=x sender=<>"},
		{"--suspend smtp/x", "SUSPEND THREAD smtp x"},
	} {
		o, err := parseOptions(strings.Fields(test.args))
		if err != nil {
			t.Fatal(test.args, err)
		}
		orders, err := o.orders()
		if err != nil {
			t.Fatal(test.args, err)
		}
		var got []string
		for i := range orders {
			got = append(got, orders[i].String())
		}
		if got := strings.Join(got, "; "); got != test.want {
			t.Errorf("%s: %s, want %s", test.args, got, test.want)
		}
	}
}
