package cluster_test

// Stores that tests can break: a miniredis in virtual time, and a redis-server.

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"zsched/internal/redisurl"
	"zsched/internal/testing/peertest"
	"zsched/scheduler/cluster"
)

// server is a store that tests can break.
type server interface {
	Kill()
	Start()
	Pause()
	Continue()
	// use makes a node use the store, over a link that tests can break; nil: there is
	// no such link.
	use(o *cluster.Options) *link
	// session is the mean length of sessions that suits the store's ttl.
	session() time.Duration
}

// virtually runs a test in virtual time with a miniredis. So it does not matter for its
// verdict how fast the machine is.
func virtually(t *testing.T, test func(*testing.T, *memoryStore)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, newMemoryStore(t)) })
}

// eachServer runs a test with each kind of store.
func eachServer(t *testing.T, test func(*testing.T, server)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		virtually(t, func(t *testing.T, m *memoryStore) { test(t, m) })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := peertest.FindRedis(t)
		if r == nil {
			t.Skip("no redis-server: make peers gets one")
		}
		r.Start()
		test(t, realStore{r})
	})
}

// realStore is a redis-server, with the ttl of production: nodes stop using a share six
// seconds before it ends in the store, so a machine that stands still for less than that
// does not make them exceed a limit.
type realStore struct{ *peertest.Redis }

func (r realStore) session() time.Duration { return 200 * time.Millisecond }

func (r realStore) use(o *cluster.Options) *link {
	o.Store = redisurl.Address{Addrs: []string{r.Addr()}}
	return nil
}

// memoryStore is a miniredis without a listener. Its keys expire in virtual time.
type memoryStore struct {
	t     *testing.T
	begun time.Time

	mu    sync.Mutex
	redis *miniredis.Miniredis // nil: it is not running
	gate  chan struct{}        // closed when the server goes on; nil: it is not paused
}

// ttl is that of nodes in virtual time. It is short, so that a test has few sessions.
const ttl = time.Second

// linkDelay is how long a call or a reply takes on the way.
const linkDelay = 200 * time.Microsecond

// expiryStep is how often keys expire.
const expiryStep = 10 * time.Millisecond

func newMemoryStore(t *testing.T) *memoryStore {
	m := &memoryStore{t: t, begun: time.Now()}
	m.Start()
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() {
		close(stop)
		<-ended
		m.Continue()
		m.Kill()
		time.Sleep(time.Minute) // until goroutines of the library that dial have ended
	})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			case <-time.After(expiryStep):
			}
			m.mu.Lock()
			redis := m.redis
			m.mu.Unlock()
			if redis != nil {
				redis.FastForward(expiryStep)
			}
		}
	}()
	return m
}

func (m *memoryStore) session() time.Duration { return 20 * time.Millisecond }

func (m *memoryStore) use(o *cluster.Options) *link {
	l := &link{store: m, late: linkDelay}
	o.Store = redisurl.Address{Addrs: []string{"memory:6379"}, TTL: ttl}
	o.InVirtualTime(func() time.Duration { return time.Hour + time.Since(m.begun) }, l.dial)
	return l
}

// Start starts an empty server.
func (m *memoryStore) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.redis = miniredis.NewMiniRedis()
}

func (m *memoryStore) Kill() {
	m.mu.Lock()
	redis := m.redis
	m.redis = nil
	m.mu.Unlock()
	if redis != nil {
		redis.Close()
	}
}

// Pause stops the server as SIGSTOP does: it gets what is sent to it when it goes on.
func (m *memoryStore) Pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gate = make(chan struct{})
}

func (m *memoryStore) Continue() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate != nil {
		close(m.gate)
		m.gate = nil
	}
}

// running waits while the server is paused.
func (m *memoryStore) running() {
	m.mu.Lock()
	gate := m.gate
	m.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (m *memoryStore) dial() (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.redis == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return m.redis.Dial()
}

// link passes bytes between a node and a memoryStore until it is told to drop them.
type link struct {
	store *memoryStore
	mu    sync.Mutex
	wait  chan struct{} // closed when bytes pass again; nil: they pass
	late  time.Duration // how long each part of a call or a reply takes
}

func (l *link) dial(context.Context, string, string) (net.Conn, error) {
	server, err := l.store.dial()
	if err != nil {
		return nil, err
	}
	node, far := net.Pipe()
	end := func() { _ = server.Close(); _ = far.Close() }
	go func() { defer end(); l.copy(server, far, l.store.running) }()
	go func() { defer end(); l.copy(far, server, func() {}) }()
	return node, nil
}

func (l *link) copy(to io.Writer, from io.Reader, ready func()) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		l.mu.Lock()
		wait, late := l.wait, l.late
		l.mu.Unlock()
		if wait != nil { // what comes now is lost, and the connection hangs
			<-wait
			return
		}
		time.Sleep(late)
		ready()
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (l *link) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wait == nil {
		l.wait = make(chan struct{})
	}
}

func (l *link) open() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wait != nil {
		close(l.wait)
		l.wait = nil
	}
}

func (l *link) delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late = d
}

// TestMemoryStore: it is a store that can be paused and killed.
func TestMemoryStore(t *testing.T) {
	virtually(t, func(t *testing.T, m *memoryStore) {
		var o cluster.Options
		l := m.use(&o)
		c, err := l.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		answer := func() string {
			b := make([]byte, 100)
			if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
				return err.Error()
			}
			_ = c.SetReadDeadline(time.Now().Add(time.Second))
			n, err := c.Read(b)
			if err != nil {
				return err.Error()
			}
			return string(b[:n])
		}
		if got := answer(); got != "+PONG\r\n" {
			t.Fatalf("running: %q", got)
		}
		m.Pause()
		go func() { time.Sleep(500 * time.Millisecond); m.Continue() }()
		began := time.Now()
		if got := answer(); got != "+PONG\r\n" || time.Since(began) != 500*time.Millisecond+linkDelay {
			t.Errorf("paused: %q after %v", got, time.Since(began))
		}
		m.Kill()
		var refused syscall.Errno
		if _, err := l.dial(t.Context(), "", ""); !errors.As(err, &refused) || refused != syscall.ECONNREFUSED {
			t.Errorf("killed: %v", err)
		}
	})
}
