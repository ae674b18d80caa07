package xfer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/xfer"
)

// authority signs certificates of nodes.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	a := &authority{t: t, dir: t.TempDir(), key: key, cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "nodes"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.write("ca", a.cert, key)
	return a
}

// write signs a certificate and writes NAME.crt and NAME.key.
func (a *authority) write(name string, cert *x509.Certificate, key *ecdsa.PrivateKey) {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	check(a.t, err)
	private, err := x509.MarshalECPrivateKey(key)
	check(a.t, err)
	for file, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		check(a.t, os.WriteFile(filepath.Join(a.dir, name+file), pem.EncodeToMemory(block), 0o600))
	}
}

// credentials returns those of a node.
func (a *authority) credentials(name string) xfer.Credentials {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(a.t, err)
	a.write(name, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, key)
	path := filepath.Join(a.dir, name)
	return xfer.Credentials{Cert: path + ".crt", Key: path + ".key", CA: filepath.Join(a.dir, "ca.crt")}
}

// TestOnlyNodesWithTheirOwnCertificatePush: both sides need a certificate with their name,
// signed by the authority of the nodes, and the pusher has to be in the table.
func TestOnlyNodesWithTheirOwnCertificatePush(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	target := ours.credentials("mx2")
	for _, c := range []struct {
		what, node string
		source     xfer.Credentials
		target     xfer.Credentials
		works      bool
	}{
		{"both right", "mx1", ours.credentials("mx1"), target, true},
		{"not in the table", "mx9", ours.credentials("mx9"), target, false},
		{"name of another node", "mx3", ours.credentials("mx1"), target, false},
		{"another authority", "mx1", others.credentials("mx1"), target, false},
		{"no certificate", "mx1", xfer.Credentials{}, target, false},
		{"the target has another name", "mx1", ours.credentials("mx1"), ours.credentials("mx3"), false},
	} {
		p := newPair(t, t.TempDir(), t.TempDir())
		p.submit(1)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		table := "mx1 localhost:1\nmx2 " + listener.Addr().String() + "\nmx3 localhost:1\n"
		check(t, os.WriteFile(p.nodes, []byte(table), 0o600))
		p.credentials, p.node = c.source, c.node
		stop, err := p.serveOn(func() net.Listener { return listener }, c.target)
		check(t, err)
		said := p.run()
		stop()
		if works := strings.Contains(said, "\tok3 moved to mx2"); works != c.works {
			t.Errorf("%s: the agent says\n%s", c.what, said)
		}
		if n := len(controlFiles(filepath.Join(p.target, "transport"), "")); n > 0 != c.works {
			t.Errorf("%s: %d messages have arrived", c.what, n)
		}
	}
}

// TestConnectionsThatSayNothingAreBounded: there are so many of them and no more, and a node
// gets in as soon as one of them ends.
func TestConnectionsThatSayNothingAreBounded(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(1)
	stop, err := p.serve()
	check(t, err)
	defer stop()
	var silent []net.Conn
	for {
		conn, err := net.Dial("unix", p.socket)
		check(t, err)
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			break
		}
		silent = append(silent, conn)
	}
	if len(silent) != 50 {
		t.Errorf("%d connections may say nothing", len(silent))
	}
	silent[0].Close()
	for !strings.Contains(p.run(), "\tok3 moved to mx2") {
	}
}

// TestReplacedCertificateIsUsed: a node that takes mail reads its files again when one of
// them has changed.
func TestReplacedCertificateIsUsed(t *testing.T) {
	ours, others := newAuthority(t), newAuthority(t)
	p := newPair(t, t.TempDir(), t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, os.WriteFile(p.nodes, []byte("mx1 localhost:1\nmx2 "+listener.Addr().String()+"\n"), 0o600))
	dir := t.TempDir()
	target := xfer.Credentials{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}
	stop, err := p.serveOn(func() net.Listener { return listener }, target)
	check(t, err)
	defer stop()
	for i, source := range []*authority{ours, others, ours} {
		from := source.credentials("mx2")
		for from, to := range map[string]string{from.Cert: target.Cert, from.Key: target.Key, from.CA: target.CA} {
			text, err := os.ReadFile(from)
			check(t, err)
			check(t, os.WriteFile(to+".new", text, 0o600))
			check(t, os.Rename(to+".new", to))
		}
		p.submit(1)
		p.credentials = source.credentials("mx1")
		if said := p.run(); !strings.Contains(said, "\tok3 moved to mx2") {
			t.Errorf("certificate %d: the agent says\n%s", i, said)
		}
	}
}
