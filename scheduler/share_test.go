package scheduler

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
)

func TestShareNames(t *testing.T) {
	for _, tt := range [][4]string{
		{"sender", "ann@example.org", "uid:7", "ann@example.org"}, {"senderdomain", "ann@example.org", "uid:7", "example.org"},
		{"none", "ann@example.org", "uid:7", ""}, {"senderdomain", "", "", ""}, {"senderdomain", "ann", "", "ann"},
		{"source", "ann@example.org", "uid:7", "uid:7"}, {"source", "ann@example.org", "", "example.org"}, {"source", "<>", "", "<>"},
	} {
		if got := rule.ShareName(tt[0], tt[1], tt[2]); got != tt[3] {
			t.Errorf("%s of %q from %q is %q, want %q", tt[0], tt[1], tt[2], got, tt[3])
		}
	}
	c := &rule.Config{Shares: map[string]int{"example.org": 4, "ann@example.org": 2, "192.0.2.0/24": 3}}
	for name, want := range map[string]int{"example.org": 4, "ann@example.org": 2, "bob@example.org": 4, "192.0.2.0/24": 3, "else": 1, "": 1} {
		if got := c.Weight(name); got != want {
			t.Errorf("the weight of %q is %d, want %d", name, got, want)
		}
	}
}

// TestNothingIsSharedWithoutShares: with share=none the order is that of
// loading, whoever sends.
func TestNothingIsSharedWithoutShares(t *testing.T) {
	m := newJobModel(rule.Params{Share: "none"})
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		m.last++
		host := "h" + strconv.Itoa(int(m.last))
		m.offsets[host] = 100
		m.step(Arrived{Message{ID: m.last, Path: strconv.Itoa(int(m.last)), Sender: "s@" + strings.Repeat("x", r.IntN(5)),
			Recipients: []ctlfile.OpenRecipient{{Offset: 100, Channel: "smtp", Host: host}}}})
	}
	for m.s.mail.byID.Len() > 0 {
		m.deliver()
	}
	for i, id := range m.picks {
		if id != MessageID(i+1) {
			t.Fatalf("pick %d is message %d", i+1, id)
		}
	}
}
