package smtpserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zsched/internal/postoffice"
)

// submit commits a small message in a goroutine.
func (s *started) submit(all *sync.WaitGroup) {
	s.t.Helper()
	m, err := s.queue.create()
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = m.w.WriteString("env-end\n\nx\n")
	all.Go(func() {
		if err := s.queue.commit(m); err != nil {
			s.t.Error(err)
		}
	})
}

func TestMessagesThatWaitTogetherShareOneSync(t *testing.T) {
	s := start(t, nil)
	one, all := 0, 0
	begun, proceed := make(chan struct{}), make(chan struct{})
	s.queue.group.SyncFile = func(*postoffice.File) error {
		one++
		close(begun)
		<-proceed
		return nil
	}
	s.queue.group.SyncAll = func() error { all++; return nil }
	var submitted sync.WaitGroup
	s.submit(&submitted)
	<-begun // the first is being synced, and the others wait meanwhile
	const more = 100
	for range more {
		s.submit(&submitted)
	}
	for s.queue.group.Waiting() < more {
		// until all are in the queue
	}
	close(proceed)
	submitted.Wait()
	if one != 1 || all != 1 {
		t.Errorf("%d syncs of one file, %d of all", one, all)
	}
	if got := len(s.messages()); got != more+1 {
		t.Errorf("%d messages", got)
	}
}

// Large headers wait for each other, and usual ones wait for none, however long the body is.
func TestUsualHeaderWaitsForNoLargeOne(t *testing.T) {
	s := start(t, nil)
	check := func(lines int) error {
		m, err := s.queue.create()
		if err == nil {
			defer m.discard()
			_, err = m.w.WriteString(strings.Repeat("X: "+strings.Repeat("x", 500)+"\n", lines) + "\n" + strings.Repeat("body\n", 100_000))
		}
		return errors.Join(err, s.queue.checkHeader(m, 0))
	}
	s.queue.headers.Lock()
	if err := check(100); err != nil {
		t.Error(err)
	}
	done := make(chan error, 1)
	go func() { done <- check(200) }()
	select {
	case <-done:
		t.Error("a large header is read beside another one")
		s.queue.headers.Unlock()
	case <-time.After(100 * time.Millisecond):
		s.queue.headers.Unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A message that is refused before its end leaves no file, however much of it still comes.
func TestRefusedMessageGivesUpItsFile(t *testing.T) {
	s := start(t, nil)
	m, err := s.queue.create()
	if err != nil {
		t.Fatal(err)
	}
	c := &text{file: m, w: m.w, maxSize: 10}
	for range 2 {
		c.add([]byte("more than ten bytes"))
	}
	if _, err := os.Lstat(m.file.Name()); c.err != errTooLarge || c.file != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v, %v, %v", c.err, c.file, err)
	}
}

// Messages that are not complete share the room on the disk: a client has as much as he leaves free,
// and gives it back when his message ends.
func TestIncompleteMessagesShareTheDisk(t *testing.T) {
	s := start(t, nil)
	flow := s.config.Load().flow
	flow.asked, flow.free, flow.inodes = time.Now().Add(time.Hour), flow.minFree+24*checkEvery, 2*minInodes
	mail := func(source string) (c *session, parts int) {
		c = &session{server: s.Server, mail: &transaction{source: source}}
		for c.moreText(checkEvery) == nil {
			parts++
		}
		return c, parts
	}
	first, half := mail("a")
	_, third := mail("b")
	if half != 12 || third < 4 {
		t.Errorf("%d and %d parts of 24", half, third)
	}
	first.reset()
	if held := s.files.held["a"]; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestMessageIsNotAcknowledgedUnlessItIsOnDisk(t *testing.T) {
	s := start(t, nil)
	fault := errors.New("input/output error")
	s.queue.group.SyncFile = func(f *postoffice.File) error {
		if got := s.messages(); len(got) != 0 {
			t.Errorf("in router/ before its sync: %q", got)
		}
		return fault
	}
	d := s.dial()
	begin(d)
	d.say("DATA", "354 ")
	d.say("\r\nx\r\n.", "451 ")
	if got := s.messages(); len(got) != 0 {
		t.Errorf("messages %q", got)
	}
	s.nothingLeft()
}

func TestWhatADeadProcessLeftIsRemoved(t *testing.T) {
	s := start(t, nil)
	public := filepath.Join(s.office, "public")
	for _, name := range []string{".smtpserver-2147483647-1", ".smtpserver-1-1", "other"} {
		if err := os.WriteFile(filepath.Join(public, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.queue.removeAbandoned()
	entries, _ := os.ReadDir(public)
	if len(entries) != 2 {
		t.Errorf("left %v", entries)
	}
}
