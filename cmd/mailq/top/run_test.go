package top

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"zsched/mailq/client"
)

// countingTTY is a terminal that counts what is written to it.
type countingTTY struct {
	written int
	stop    chan bool
}

func (b *countingTTY) Start() error        { return nil }
func (b *countingTTY) Stop() error         { return nil }
func (b *countingTTY) Drain() error        { close(b.stop); return nil }
func (b *countingTTY) NotifyResize(func()) {}
func (b *countingTTY) WindowSize() (tcell.WindowSize, error) {
	return tcell.WindowSize{Width: 100, Height: 30}, nil
}
func (b *countingTTY) Read([]byte) (int, error)    { <-b.stop; return 0, io.EOF }
func (b *countingTTY) Write(p []byte) (int, error) { b.written += len(p); return len(p), nil }
func (b *countingTTY) Close() error                { return nil }

// TestTopSendsOnlyChanges: over a slow link a screen that shows the same again
// costs next to nothing.
func TestTopSendsOnlyChanges(t *testing.T) {
	t.Setenv("TERM", "xterm")
	tty := &countingTTY{stop: make(chan bool)}
	screen, err := tcell.NewTerminfoScreenFromTty(tty)
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Fini()
	s := newTestScreen(t, newRecorded(t), 100, 8)
	show := func(now time.Time) int {
		before := tty.written
		s.now = now
		s.draw(screen)
		screen.Show()
		return tty.written - before
	}
	first := show(recordedAt)
	if again := show(recordedAt); first < 500 || again > 50 {
		t.Errorf("%d bytes at first, %d for the same again", first, again)
	}
	// Times of four threads and of the snapshot.
	if later := show(recordedAt.Add(time.Second)); later > 250 {
		t.Errorf("%d bytes for another second", later)
	}
}

// TestTopRuns: the loop itself, with a source that does not answer while keys
// are pressed.
func TestTopRuns(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	defer screen.Fini()
	screen.SetSize(80, 10)
	stuck := &stuckSource{recorded: newRecorded(t), asked: make(chan bool), answer: make(chan bool)}
	done := make(chan bool)
	go func() {
		(&Top{Screen: screen, Source: stuck, Every: time.Hour}).Run(t.Context())
		close(done)
	}()
	<-stuck.asked
	screen.InjectKey(tcell.KeyRune, '?', 0)
	screen.InjectKey(tcell.KeyEscape, 0, 0)
	stuck.answer <- true
	screen.InjectKey(tcell.KeyRune, ' ', 0)
	<-stuck.asked
	screen.InjectKey(tcell.KeyRune, 'q', 0)
	<-done // though the source is still asked
	stuck.answer <- true
}

type stuckSource struct {
	*recorded
	asked, answer chan bool
}

func (q *stuckSource) Snapshot() (*client.Snapshot, error) {
	q.asked <- true
	<-q.answer
	return q.recorded.Snapshot()
}

// TestTopEndsWithItsContext: a signal ends it, also while the source is asked.
func TestTopEndsWithItsContext(t *testing.T) {
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	defer screen.Fini()
	stuck := &stuckSource{recorded: newRecorded(t), asked: make(chan bool), answer: make(chan bool)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		(&Top{Screen: screen, Source: stuck, Every: time.Hour}).Run(ctx)
		close(done)
	}()
	<-stuck.asked
	cancel()
	<-done
	stuck.answer <- true
}
