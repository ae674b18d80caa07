package cluster_test

// The kinds of connection to a real Redis server: TLS and Sentinels. And what nodes
// get of a rate.

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"zsched/internal/redisurl"
	"zsched/internal/testing/peertest"
	"zsched/scheduler"
	"zsched/scheduler/cluster"
	"zsched/scheduler/limit"
)

// runningNode is a Node whose turns come in a goroutine of its own.
type runningNode struct {
	*cluster.Node
	mu     sync.Mutex
	events func(scheduler.Event)
}

// run starts a node. Each event for the core goes to events, which may use the Node.
func run(t *testing.T, address, name string, ttl time.Duration, events func(*runningNode, scheduler.Event)) *runningNode {
	t.Helper()
	a, err := redisurl.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	a.TTL = ttl
	n := &runningNode{Node: cluster.Open(cluster.Options{
		Store: a, Node: name, Place: name, Nonce: fmt.Sprint(name, time.Now().UnixNano()), Timeout: time.Second,
	})}
	n.events = func(e scheduler.Event) {
		if events != nil {
			events(n, e)
		}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-ended; n.Close() })
	go func() {
		defer close(ended)
		for {
			var next time.Time
			n.do(func() { next = n.Next() })
			select {
			case <-stop:
				return
			case <-n.Woken():
			case <-time.After(min(time.Until(next), 100*time.Millisecond)):
			}
		}
	}()
	return n
}

// do is a turn in which something is done.
func (n *runningNode) do(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.Turn(time.Now()) {
		n.events(e)
	}
	f()
	for events := n.Flush(); len(events) > 0; events = n.Flush() {
		for _, e := range events {
			n.events(e)
		}
	}
}

func (n *runningNode) stats() (s cluster.State) {
	n.do(func() { s = n.State() })
	return s
}

// reaches waits until the node has made calls that the store has answered.
func (n *runningNode) reaches(t *testing.T) {
	t.Helper()
	peertest.Until(t, "the store is reached", func() bool { s := n.stats(); return s.Epoch != 0 && !s.Lost })
}

// certificate writes a key and a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "store"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	peertest.Put(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	peertest.Put(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return certFile, keyFile
}

// TestStoreWithTLS: a node reaches it, if its certificate is trusted.
func TestStoreWithTLS(t *testing.T) {
	r := peertest.FindRedis(t)
	if r == nil {
		t.Skip("no redis-server: make peers gets one")
	}
	cert, key := certificate(t)
	tlsPort := peertest.FreePort(t)
	r.Args = []string{"--tls-port", fmt.Sprint(tlsPort), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"}
	r.Start()
	// The trusted certificates are read once in a process, so both kinds are tried
	// with them: another server with another certificate is refused.
	t.Setenv("SSL_CERT_FILE", cert)
	n := run(t, fmt.Sprint("rediss://127.0.0.1:", tlsPort), "node1", 0, nil)
	n.reaches(t)
	other, otherKey := certificate(t)
	u := peertest.FindRedis(t)
	otherPort := peertest.FreePort(t)
	u.Args = []string{"--tls-port", fmt.Sprint(otherPort), "--tls-cert-file", other, "--tls-key-file", otherKey, "--tls-auth-clients", "no"}
	u.Start()
	refused := run(t, fmt.Sprint("rediss://127.0.0.1:", otherPort), "node2", 0, nil)
	peertest.Until(t, "a call fails", func() bool { return refused.stats().Failures > 0 })
	if s := refused.stats(); s.Epoch != 0 {
		t.Error("a server whose certificate is not trusted is used")
	}
}

// TestSentinelsNameAnotherServer: the master is killed, the Sentinel makes the replica
// the master, and the node meets a new epoch there.
func TestSentinelsNameAnotherServer(t *testing.T) {
	t.Parallel()
	master, replica, sentinel := peertest.FindRedis(t), peertest.FindRedis(t), peertest.FindRedis(t)
	if master == nil {
		t.Skip("no redis-server: make peers gets one")
	}
	master.Start()
	replica.Args = []string{"--replicaof", "127.0.0.1 " + fmt.Sprint(master.Port), "--repl-diskless-sync-delay", "0"}
	replica.Start()
	sentinel.StartSentinel(master)
	n := run(t, fmt.Sprintf("redis://127.0.0.1:%d/0?master_name=mymaster", sentinel.Port), "node1", time.Second, nil)
	n.reaches(t)
	// The Sentinel hears of the replica within ten seconds.
	peertest.Until(t, "the Sentinel knows the replica", func() bool {
		conf, _ := os.ReadFile(filepath.Join(sentinel.Dir, "sentinel.conf"))
		return bytes.Contains(conf, []byte(fmt.Sprintf("known-replica mymaster 127.0.0.1 %d", replica.Port)))
	})
	before := n.stats().Epoch
	master.Kill()
	peertest.Until(t, "the node meets a new epoch", func() bool { return n.stats().Epoch != before })
	s := n.stats()
	t.Logf("after the failover: lost %d times, %d batches failed", s.Losses, s.Failures)
}

// TestThreeNodesGetTheirRate: with demand on all of them, they use at least nine tenths
// of the rate, and in no span more than its tokens and one of each node.
func TestThreeNodesGetTheirRate(t *testing.T) {
	virtually(t, func(t *testing.T, s *memoryStore) {
		const perSecond, seconds = 60, 8
		x := trioOf(t, s, 0)
		x.rate = limit.Rate{Recipients: perSecond, Span: time.Second}
		x.start()
		for _, n := range x.nodes {
			x.awaitOf(n, n.name+" starts sessions", perSecond/2)
		}
		x.count()
		x.mu.Lock()
		x.begun = nil
		x.mu.Unlock()
		x.await("sessions have started", perSecond*seconds)
		c := x.counted()
		x.mu.Lock()
		begun := slices.Clone(x.begun)
		x.mu.Unlock()
		span := begun[len(begun)-1].Sub(begun[0]).Seconds()
		excess := 0.0
		for i := range begun {
			for j := i; j < len(begun); j++ {
				excess = max(excess, float64(j-i+1)-perSecond*begun[j].Sub(begun[i]).Seconds())
			}
		}
		used := float64(len(begun)-1) / (perSecond * span)
		t.Logf("%d recipients of %d a second in %.1f s, %v: %.2f of the rate; excess in any span at most %.0f, %.1f s of the rate",
			len(begun), perSecond, span, c.each, used, excess, excess/perSecond)
		if used < 0.9 {
			t.Errorf("%.2f of the rate", used)
		}
		if excess > 3.01 {
			t.Errorf("%.0f recipients too many in a span", excess)
		}
	})
}
