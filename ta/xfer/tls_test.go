package xfer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
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
		p.submit(1, false)
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

func TestProgramsAndFilesAreRefused(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		p := newPair(t, t.TempDir(), t.TempDir())
		p.programs = allowed
		p.usersAre = []string{"|/bin/sh", `"|/bin/sh -c x"`, "/etc/passwd", ":Include:/etc/passwd", "bob"}
		p.submit(len(p.usersAre), false)
		stop, err := p.serve()
		check(t, err)
		said := p.run()
		stop()
		moved, refused := strings.Count(said, "\tok3 moved"), strings.Count(said, "\tdeferred node mx2 refuses it")
		want := [2]int{1, 4}
		if allowed {
			want = [2]int{5, 0}
		}
		if [2]int{moved, refused} != want {
			t.Errorf("programs allowed: %v: %d were moved, %d refused:\n%s", allowed, moved, refused, said)
		}
		for _, path := range controlFiles(filepath.Join(p.target, "transport"), "") {
			f := p.readControl(filepath.Join(p.target, "transport", path))
			if len(f.Recipients) != want[0] || !allowed && f.Recipients[0].User != "bob" || f.Recipients[0].Tag != ctlfile.Open {
				t.Errorf("%d recipients have arrived: %+v", len(f.Recipients), f.Recipients)
			}
		}
	}
}

// TestIdleConnectionsKeepNoNodeOut: connections without a certificate are closed when
// there are too many of them, and a node from the same address still gets in.
func TestIdleConnectionsKeepNoNodeOut(t *testing.T) {
	ours := newAuthority(t)
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(1, false)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, os.WriteFile(p.nodes, []byte("mx1 localhost:1\nmx2 "+listener.Addr().String()+"\n"), 0o600))
	p.credentials = ours.credentials("mx1")
	stop, err := p.serveOn(func() net.Listener { return listener }, ours.credentials("mx2"))
	check(t, err)
	defer stop()
	const idle, kept = 60, 10
	closed := make(chan bool, idle)
	for range idle {
		conn, err := net.Dial("tcp", listener.Addr().String())
		check(t, err)
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		go func() {
			_, err := conn.Read(make([]byte, 1))
			closed <- !errors.Is(err, os.ErrDeadlineExceeded)
		}()
	}
	for i := range idle - kept {
		if !<-closed {
			t.Fatalf("only %d of %d idle connections are closed", i, idle)
		}
	}
	if said := p.run(); !strings.Contains(said, "\tok3 moved to mx2") {
		t.Errorf("the agent says\n%s", said)
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
		p.submit(1, false)
		p.credentials = source.credentials("mx1")
		if said := p.run(); !strings.Contains(said, "\tok3 moved to mx2") {
			t.Errorf("certificate %d: the agent says\n%s", i, said)
		}
	}
}

// TestOnlyChannelsThatRunNothingArePushed: without PARAMxfer-programs, a node can make
// this one run nothing as root, whatever the channels here do.
func TestOnlyChannelsThatRunNothingArePushed(t *testing.T) {
	for _, c := range []struct {
		channel, host, privilege string
		programs                 bool
		refused                  string // "": taken
		arrives                  string // its privilege
	}{
		{"smtp", "", "65534", false, "", "65534"},
		{"smtp", "", "0", false, "", "65534"},
		{"smtp", "", "-3", false, "", "65534"},
		{"smtp", "", "0", true, "", "0"},
		{"prog", "-", "0", false, "channel prog is not in PARAMxfer-channels of this node", ""},
		{"prog", "-", "65534", false, "channel prog is not in PARAMxfer-channels of this node", ""},
		{"SMTP", "", "65534", false, "channel SMTP is not in PARAMxfer-channels of this node", ""},
		{"prog", "-", "0", true, "", "0"},
		{"hold", "NS:a.example", "65534", false, "", "65534"},
		{"hold", "Script:x/y", "65534", false, "programs, files and lists of users are not accepted", ""},
		{"hold", "script:x/y", "65534", true, "", "65534"},
	} {
		p := newPair(t, t.TempDir(), t.TempDir())
		p.channel, p.host, p.privilege, p.programs = c.channel, c.host, c.privilege, c.programs
		p.submit(1, false)
		stop, err := p.serve()
		check(t, err)
		said := p.run()
		stop()
		want := "\tok3 moved to mx2"
		if c.refused != "" {
			want = "\tdeferred node mx2 refuses it: " + c.refused
		}
		if !strings.Contains(said, want) {
			t.Errorf("%+v: the agent says\n%s", c, said)
		}
		arrived := ""
		for _, path := range controlFiles(filepath.Join(p.target, "transport"), "") {
			arrived += p.readControl(filepath.Join(p.target, "transport", path)).Recipients[0].Privilege
		}
		if arrived != c.arrives {
			t.Errorf("%+v: it arrives with privilege %q", c, arrived)
		}
	}
}

// TestManyRefusedRecipientsDoNotEndTheConnection: if a reply cannot name all recipients
// that are refused, the node takes none, and says why.
func TestManyRefusedRecipientsDoNotEndTheConnection(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.usersAre = []string{"bob"}
	for range 12000 {
		p.usersAre = append(p.usersAre, "|/bin/sh")
	}
	p.submit(len(p.usersAre), false)
	stop, err := p.serve()
	check(t, err)
	said := p.run()
	stop()
	want := "deferred node mx2 answers 550 the message cannot be taken as it is: 12000 recipients are refused: programs"
	if n := strings.Count(said, want); n != 12001 {
		t.Errorf("%d of 12001 recipients are deferred for that:\n%.2000s", n, said)
	}
	if n := len(controlFiles(filepath.Join(p.target, "transport"), "")); n != 0 {
		t.Errorf("%d messages have arrived", n)
	}
}
