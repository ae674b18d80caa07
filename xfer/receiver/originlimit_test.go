package receiver

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/xfer"
)

// manyRecipients is a control file with recipients of a node.
func manyRecipients(node string, message, recipients int) string {
	var b strings.Builder
	b.WriteString("i 1\no 12\nl <m@x>\ns local - a@x.example 0\n")
	for i := range recipients {
		fmt.Fprintf(&b, "r           xfer n1 bob 0\nO %s/S%dA/%d 3 0 queue local -\n", node, message, 100+i)
	}
	b.WriteString("m\nSubject: x\n\n")
	return b.String()
}

// newArrival is a push of a node.
func newArrival(t *testing.T, node, control string) *arrival {
	t.Helper()
	f, err := ctlfile.Parse([]byte(control))
	check(t, err)
	return &arrival{from: xfer.Node{Name: node}, control: f}
}

// TestUnconfirmedOriginsAreLimited: per node and in all, however the node spells its name,
// until it confirms some.
func TestUnconfirmedOriginsAreLimited(t *testing.T) {
	const each = originCost + int64(len("n2/S1A/100"))
	n := newTarget(t, Options{MaxOrigins: 10 * each})
	p := n.connect("n2")
	for i := range 3 {
		if said := p.push(manyRecipients("n2", i, 3)); said != "250 1 ok" {
			t.Fatalf("push %d: the reply is %q", i, said)
		}
	}
	if said := p.push(manyRecipients("N2", 3, 2)); !strings.HasPrefix(said, "451 1 too many recipients are not confirmed") {
		t.Errorf("beyond the limit, the reply is %q", said)
	}
	if said := p.push(manyRecipients("n2", 0, 3)); said != "250 1 ok" {
		t.Errorf("a push again: the reply is %q", said)
	}
	if said := n.connect("n3").push(manyRecipients("n3", 3, 2)); said != "250 1 ok" {
		t.Errorf("another node: the reply is %q", said)
	}
	_, err := io.WriteString(p, "DONE n2/S1A 100\n")
	check(t, err)
	p.quit()
	if said := n.connect("n2").push(manyRecipients("n2", 3, 2)); said != "250 1 ok" {
		t.Errorf("after a DONE, the reply is %q", said)
	}
	if got := len(n.queued("transport")); got != 5 {
		t.Errorf("the queue has %d messages", got)
	}
}

// TestOriginsOfAllNodesAreLimited: also those that the file has at the start, and those of
// one batch. Origins that are too old do not count.
func TestOriginsOfAllNodesAreLimited(t *testing.T) {
	const each = originCost + int64(len("n2/S1A/100"))
	s := newStore(t)
	var b strings.Builder
	old := time.Now().Add(-s.options.Keep).Unix() + 3600
	for i := range 2 * nodesAtLimit {
		fmt.Fprintf(&b, "T %d t n%d/S1A 100,101,102,103,104\n", old, i)
	}
	check(t, os.WriteFile(filepath.Join(s.controls, originsName), []byte(b.String()), 0o600))
	s.options.MaxOrigins = 10 * each
	check(t, s.recover())
	if s.origins.all != 2*nodesAtLimit*5*each || len(s.origins.used) != 2*nodesAtLimit {
		t.Errorf("%d bytes of %d nodes are counted", s.origins.all, len(s.origins.used))
	}
	// A batch does not write the file again.
	check(t, s.ready())
	if text, err := os.ReadFile(filepath.Join(s.controls, originsName)); err != nil || string(text) != b.String() {
		t.Errorf("the file was written again: %q, %v", text, err)
	}
	push := func() error { _, err := s.choose(newArrival(t, "n1", manyRecipients("n1", 2, 1))); return err }
	s.options.Channels = []string{"local"}
	s.origins.begin()
	if err := push(); err == nil || !strings.Contains(err.Error(), "those of all nodes") {
		t.Errorf("beyond the limit: %v", err)
	}
	s.origins.keep, s.origins.purgedAt = time.Minute, time.Time{} // now they are too old
	for i := range 11 {
		if err := push(); (err == nil) != (i < 10) {
			t.Errorf("push %d of the batch: %v", i, err)
		}
	}
	s.origins.begin() // the batch was not taken
	if s.origins.all != 0 || len(s.origins.used) != 0 {
		t.Errorf("%d bytes of %d nodes are left", s.origins.all, len(s.origins.used))
	}
}
