package ta

import (
	"bytes"
	"sync"
	"testing"
)

// held is a writer that says when it is written to and goes on when it may.
type held struct {
	entered, goOn chan struct{}
	mu            sync.Mutex
	text          bytes.Buffer
}

func (h *held) Write(b []byte) (int, error) {
	h.entered <- struct{}{}
	<-h.goOn
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(b)
}

// Whoever leaves, or tags what must have been heard before, has said all,
// though another is writing at the moment.
func TestOutputIsSaidWhenItIsDrained(t *testing.T) {
	w := &held{entered: make(chan struct{}), goOn: make(chan struct{})}
	o := newOutput(w)
	o.line("1")
	go func() { _ = o.flush() }()
	<-w.entered
	o.line("2")
	go func() {
		close(w.goOn)
		<-w.entered
	}()
	if err := o.drain(); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.text.String() != "1\n2\n" {
		t.Errorf("said by then: %q", w.text.String())
	}
}
