package listen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// [BUG] of the old scheduler: it exited, or logged this every five seconds.
func TestPortThatIsTakenIsTriedAgainAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int32
		log := new(buffer)
		listener := newPipeListener()
		s := New(zerolog.New(log))
		s.open("mailq tcp :174", func() (net.Listener, error) {
			if tries.Add(1) <= 10 {
				return nil, errors.New("address already in use")
			}
			return listener, nil
		}, func(l net.Listener) error { return s.Accept(l, echo) })
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
		s.Close()
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
func TestCloseEndsEverySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		s := New(zerolog.Nop())
		s.open("mailq", func() (net.Listener, error) { return listener, nil }, func(l net.Listener) error { return s.Accept(l, echo) })
		idle, busy := listener.dial(), listener.dial()
		talk(t, busy)
		s.Close()
		for _, c := range []net.Conn{idle, busy} {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the session is still there: %v", err)
			}
		}
	})
}

// A listener that fails is opened again.
func TestListeningThatEndsBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, binds := new(buffer), 0
		s := New(zerolog.New(log))
		s.open("mailq", func() (net.Listener, error) { binds++; return newPipeListener(), nil }, func(l net.Listener) error {
			if binds == 1 {
				return errors.New("bad file descriptor")
			}
			return s.Accept(l, echo)
		})
		time.Sleep(9 * time.Second)
		s.Close()
		if binds != 2 || !strings.Contains(log.String(), "bad file descriptor") {
			t.Errorf("bound %d times, log:\n%s", binds, log)
		}
	})
}

func TestUnixSocketReplacesOnlyWhatIsDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mailq")
	first, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o666 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if second, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("replaced a socket that answers: %v, %v", second, err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := listenUnix(path)
	if err != nil {
		t.Fatalf("a dead socket was not replaced: %v", err)
	}
	second.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil {
		t.Error("bound over a file")
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Error("the file is gone")
	}
}

func TestPortWithoutHostIsOpenedInBothFamilies(t *testing.T) {
	for bind, client := range map[string]string{"": "127.0.0.1", "[127.0.0.1]": "127.0.0.1", "any": "::1"} {
		if six, err := net.Listen("tcp6", "[::1]:0"); err != nil {
			client = "127.0.0.1" // this machine has no IPv6
		} else {
			six.Close()
		}
		l, err := Address{Network: "tcp", Address: ":0", BindAddr: bind}.listen()
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		conn, err := net.Dial("tcp", net.JoinHostPort(client, port))
		if err != nil {
			t.Errorf("%q: %v", bind, err)
		} else {
			conn.Close()
		}
		l.Close()
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

// Idle connections do not take the file descriptors that mail needs, and keep
// nobody out.
func TestLimitClosesTheOldestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		s := New(zerolog.Nop())
		s.Open("metrics", Address{}, []net.Listener{listener}, func(l net.Listener) error {
			return s.Accept(Limit(l, 2), echo)
		})
		first, second := listener.dial(), listener.dial()
		third := listener.dial()
		if n, err := first.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the oldest connection got %d bytes, %v", n, err)
		}
		talk(t, second)
		talk(t, third)
		second.Close()
		synctest.Wait()
		talk(t, listener.dial())
		talk(t, third) // there was room
		s.Close()
	})
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
