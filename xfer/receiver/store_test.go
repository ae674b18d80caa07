package receiver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/xfer"
)

func newStore(t *testing.T) *Store {
	t.Helper()
	office := t.TempDir()
	for _, dir := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(office, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenStore(Options{Postoffice: office, Channels: []string{"smtp"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// After a commit that failed, recover removes files that nobody works on. It never
// removes the file of a message that is just beginning to arrive.
func TestRecoverLeavesArrivingMessages(t *testing.T) {
	s := newStore(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	defer func() {
		close(stop)
		<-stopped
	}()
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.recover(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 3000 {
		a, err := s.create(xfer.Push{})
		if err != nil {
			t.Fatal(err)
		}
		if !postoffice.Exists(postoffice.WorkingDir, a.message.Name()) {
			t.Fatal("the file of a message is gone while the message arrives")
		}
		s.discard(a)
		s.release(a)
	}
}

// A message whose file is gone is not taken, and its origin is forgotten, so that the
// repeated push is taken.
func TestMessageWithoutAFileIsNotTaken(t *testing.T) {
	s := newStore(t)
	a, err := s.create(xfer.Push{Mode: 0o440, ModifiedAt: time.Now().UnixNano()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.release(a)
	control := "i 1\no 0\nl <m@x>\ns smtp - a@x.example 0\n" +
		"r           xfer nb bob@b.example 65534\nO na/S1A/42 0 0 queue smtp b.example\nm\nSubject: x\n\n"
	if _, err := a.message.Write([]byte("body\n")); err != nil {
		t.Fatal(err)
	}
	if a.control, err = ctlfile.Parse([]byte(control)); err != nil {
		t.Fatal(err)
	}
	if err := postoffice.RemovePath(a.message.Name()); err != nil {
		t.Fatal(err)
	}
	a.from = xfer.Node{Name: "na"}
	s.take([]*arrival{a})
	if a.reply.Code != xfer.Later || !strings.Contains(a.reply.Text, "the message file is gone") {
		t.Errorf("the reply is %+v", a.reply)
	}
	if files, _ := filepath.Glob(filepath.Join(s.options.Postoffice, "transport", "[0-9]*")); len(files) != 0 {
		t.Errorf("transport/ has %v", files)
	}
	if err := s.recover(); err != nil || len(s.stuck) != 0 || len(s.origins.taken) != 0 {
		t.Errorf("after recovery: %v, %s, %d origins", err, fmt.Sprint(s.stuck), len(s.origins.taken))
	}
}

// While the directories of the queue are others than at the start, nothing is taken, and no
// origin is recorded or forgotten.
func TestNothingIsTakenInAnotherDirectory(t *testing.T) {
	for _, good := range []int{0, 1} { // checks before the directory is replaced
		s := newStore(t)
		a, err := s.create(xfer.Push{Mode: 0o440, ModifiedAt: time.Now().UnixNano()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.release(a)
		if a.control, err = ctlfile.Parse([]byte("i 1\no 0\nl <m@x>\ns smtp - a@x.example 0\n" +
			"r           xfer nb bob@b.example 65534\nO na/S1A/42 0 0 queue smtp b.example\nm\nSubject: x\n\n")); err != nil {
			t.Fatal(err)
		}
		a.from = xfer.Node{Name: "na"}
		s.Check = func() error {
			if good--; good < 0 {
				return errors.New("replaced")
			}
			return nil
		}
		s.take([]*arrival{a})
		if a.reply.Code != xfer.Later || a.reply.Text != "replaced" || len(s.origins.taken) != 0 {
			t.Errorf("the reply is %+v, %d origins", a.reply, len(s.origins.taken))
		}
	}
}
