package config

import (
	"fmt"
	"strings"
	"testing"
)

// TestEachParameterIsReloadedOrWarnedOf: the manual says of each parameter that takes
// effect at the next start that it does, and of no other; and a reload that changes one
// gives a warning with its place.
func TestEachParameterIsReloadedOrWarnedOf(t *testing.T) {
	const clause = "*/*\n\tuser=root group=root expiry=3d\n"
	parse := func(text string) *File {
		t.Helper()
		file, err := Parse("scheduler.cf", []byte(text), debian(0))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := parse(clause)
	entries := entries(t, manual)
	values := map[string]string{
		"mailqpath": "TCP:1", "notifysock": "UNIX:/n", "metrics": "TCP:2", "event-log": "/log", "spool-mode": "keep", "node": "mx9",
		"cluster": "redis://store/0", "cluster-password-file": "/etc/passwd",
	}
	for i := range params {
		r := &params[i]
		entry := strings.Join(strings.Fields(entries["PARAM"+r.name]), " ")
		if r.atStart != strings.Contains(entry, "takes effect at the next start.") {
			t.Errorf("PARAM%s is read at the start: %v; the manual says otherwise", r.name, r.atStart)
		}
		if r.atStart != (values[r.name] != "") {
			t.Errorf("PARAM%s is read at the start: %v", r.name, r.atStart)
		}
		if !r.atStart {
			continue
		}
		changed := parse(fmt.Sprintf("# a comment\nPARAM%s=%s\n%s", r.name, values[r.name], clause))
		got := fmt.Sprint(changed.NotReloaded(plain))
		if want := fmt.Sprintf("[scheduler.cf:2:1: PARAM%s has changed, which takes effect at the next start", r.name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is not the warning %s", got, want)
		}
		if got := fmt.Sprint(plain.NotReloaded(changed)); !strings.HasPrefix(got, "[scheduler.cf: PARAM"+r.name) {
			t.Errorf("of a PARAM%s that is gone: %s", r.name, got)
		}
		if got := changed.NotReloaded(changed); got != nil {
			t.Errorf("of a PARAM%s that is the same: %v", r.name, got)
		}
	}
	one, other := parse("PARAMcluster=redis://:one@store/0\n"+clause), parse("PARAMcluster=redis://:two@store/0\n"+clause)
	if got := fmt.Sprint(other.NotReloaded(one)); !strings.Contains(got, "PARAMcluster has changed") || strings.Contains(got, "two") {
		t.Errorf("of another password: %s", got)
	}
}

// TestKeywordsThatAreGone: the error says what to use instead.
func TestKeywordsThatAreGone(t *testing.T) {
	for text, want := range map[string]string{
		"x job-timeout=1h command=y":                  "agent-timeout ends an agent",
		"x ringrate=1/1h command=y":                   "use rate for each thread, or channelrate",
		"PARAMxfer-cert=/x\nx command=y":              "the certificate lies beside the table of nodes",
		"PARAMcluster-prefix=mx\nx command=y":         "use the number of a database in PARAMcluster",
		"PARAMcluster-lost=stop\nx command=y":         "without the store, each limit is divided among the nodes",
		"PARAMcluster=\"redis://a,b\"\nx command=y\n": "a Redis Cluster cannot be the store",
	} {
		if _, err := Parse("f", []byte(text), debian(0)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
