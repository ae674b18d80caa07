package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// pipeListener is a listener without a descriptor.
type pipeListener struct {
	conns chan net.Conn
	gone  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{make(chan net.Conn), make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.gone:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.gone:
	default:
		close(l.gone)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial connects to it.
func (l *pipeListener) dial() net.Conn {
	ours, theirs := net.Pipe()
	l.conns <- theirs
	return ours
}

func echo(_ context.Context, c net.Conn) { io.Copy(c, c) }

// [BUG] of old: it ended, or was heard of every five seconds.
func TestPortThatIsTakenIsTriedAgainAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		log := new(buffer)
		listener := newPipeListener()
		d := newDoors(zerolog.New(log))
		d.open(door{
			name: "mailq tcp4 :174",
			bind: func() (net.Listener, error) {
				if tries.Add(1) <= 10 {
					return nil, errors.New("address already in use")
				}
				return listener, nil
			},
			serve: func(l net.Listener) error { return d.accept(l, echo) },
		})
		if n := tries.Load(); n != 1 {
			t.Errorf("tried %d times at once", n)
		}
		time.Sleep(time.Minute)
		if n := tries.Load(); n != 11 {
			t.Errorf("tried %d times in a minute", n)
		}
		if n := strings.Count(log.String(), "already in use"); n != 1 {
			t.Errorf("logged %d times", n)
		}
		if c := listener.dial(); talk(t, c) != "hello" {
			t.Error("nobody answers")
		}
		d.close()
	})
}

func talk(t *testing.T, c net.Conn) string {
	t.Helper()
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 5)
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// A stop closes what was accepted, whatever the other side does.
func TestClosingTheDoorsEndsEverySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		d := newDoors(zerolog.Nop())
		d.open(door{
			name:  "mailq",
			bind:  func() (net.Listener, error) { return listener, nil },
			serve: func(l net.Listener) error { return d.accept(l, echo) },
		})
		idle, busy := listener.dial(), listener.dial()
		talk(t, busy)
		d.close()
		for _, c := range []net.Conn{idle, busy} {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the session is still there: %v", err)
			}
		}
	})
}

// What ends by itself is begun again.
func TestListeningThatEndsBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, binds := new(buffer), 0
		d := newDoors(zerolog.New(log))
		d.open(door{
			name: "mailq",
			bind: func() (net.Listener, error) { binds++; return newPipeListener(), nil },
			serve: func(l net.Listener) error {
				if binds == 1 {
					return errors.New("bad file descriptor")
				}
				return d.accept(l, echo)
			},
		})
		time.Sleep(9 * time.Second)
		d.close()
		if binds != 2 || !strings.Contains(log.String(), "bad file descriptor") {
			t.Errorf("bound %d times, log:\n%s", binds, log)
		}
	})
}

func TestUnixSocketReplacesOnlyWhatIsDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mailq")
	first, err := bindUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o666 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if second, err := bindUnix(path); err == nil || !strings.Contains(err.Error(), "somebody else answers") {
		t.Errorf("taken from one who answers: %v, %v", second, err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := bindUnix(path)
	if err != nil {
		t.Fatalf("a dead socket was not replaced: %v", err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := bindUnix(path); err == nil {
		t.Error("bound over a file")
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("the file is gone")
	}
}

func TestPortWithoutHostIsOpenedInBothFamilies(t *testing.T) {
	var names []string
	for _, d := range doorsFor("mailq", Socket{"tcp", ":174"}, "", nil) {
		names = append(names, d.name)
	}
	if got := strings.Join(names, ", "); got != "mailq tcp6 :174, mailq tcp4 :174" {
		t.Errorf("doors are %s", got)
	}
	for _, s := range []Socket{{"tcp", "127.0.0.1:174"}, {"unix", "/run/mailq"}} {
		if n := len(doorsFor("mailq", s, "", nil)); n != 1 {
			t.Errorf("%v has %d doors", s, n)
		}
	}
	if doorsFor("metrics", Socket{}, "", nil) != nil {
		t.Error("no socket has a door")
	}
}

func TestBindAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "any": "", " ANY ": "", "[127.0.0.1]": "127.0.0.1", "127.0.0.2": "127.0.0.2", "iface:lo": "127.0.0.1",
	} {
		if got, err := bindHost(text); got != want || err != nil {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"somewhere", "[::1]", "iface:none-such"} {
		if got, err := bindHost(text); err == nil {
			t.Errorf("%q is %q", text, got)
		}
	}
}
