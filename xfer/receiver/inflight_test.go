package receiver

import (
	"bufio"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"zsched/xfer"
)

// countedReads is a connection on which nothing arrives.
type countedReads int

func (r *countedReads) Read([]byte) (int, error) {
	*r++
	return 0, io.EOF
}

// TestControlFilesInFlightAreLimited: a node that does not wait for replies cannot fill the
// memory with control files. Other nodes do not wait for it.
func TestControlFilesInFlightAreLimited(t *testing.T) {
	s := newStore(t)
	synctest.Test(t, func(t *testing.T) {
		r := New(s)
		r.inFlight.begin("N2", xfer.MaxControl)
		r.inFlight.begin("n2", xfer.MaxControl)
		pushed := func(node string, reads *countedReads) <-chan error {
			result := make(chan error, 1)
			c := &connection{receiver: r, node: node, in: bufio.NewReader(reads)}
			go func() { result <- c.push(xfer.Push{Control: 1, Message: 1}) }()
			return result
		}
		var waits, other countedReads
		n2 := pushed("n2", &waits)
		synctest.Wait()
		if err := <-pushed("n3", &other); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("another node: %v", err)
		}
		if waits != 0 {
			t.Error("a push beyond the limit is read")
		}
		r.inFlight.end("n2", xfer.MaxControl)
		if err := <-n2; !errors.Is(err, io.ErrUnexpectedEOF) || waits == 0 {
			t.Errorf("when there is room: %v after %d reads", err, waits)
		}
		r.inFlight.end("n2", xfer.MaxControl)
		if len(r.inFlight.bytes) != 0 {
			t.Errorf("counted are %v", r.inFlight.bytes)
		}
	})
}

// TestControlFilesThatAreTakenCountNoMore: also those of pushes that are refused.
func TestControlFilesThatAreTakenCountNoMore(t *testing.T) {
	n := newTarget(t, Options{})
	p := n.connect("n2")
	p.push(control("", "bob", "n2/S1A/42"))
	p.push(control("", "bob", "n3/S1A/42"))
	p.push("nonsense")
	p.quit()
	n.receiver.inFlight.mu.Lock()
	defer n.receiver.inFlight.mu.Unlock()
	if len(n.receiver.inFlight.bytes) != 0 {
		t.Errorf("counted are %v", n.receiver.inFlight.bytes)
	}
}
