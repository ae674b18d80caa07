package smtpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
	"zsched/queue"
)

// A server for tests, and dialogs with it.

// started is a server with a postoffice of its own on a loopback port.
type started struct {
	*Server
	t      *testing.T
	office string
	l      net.Listener
}

func start(t *testing.T, change func(*Options)) *started {
	t.Helper()
	office := t.TempDir()
	for _, dir := range []string{"public", "router", "transport", "queue"} {
		if err := os.Mkdir(filepath.Join(office, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := Default()
	o.Hostname, o.Domains = "mx.ours.example", []string{"ours.example", ".below.example"}
	o.Router = queue.Router{Postoffice: office}
	o.MinFree = 0
	pem := filepath.Join(office, "mx.pem")
	certificatetest.Write(t, pem, time.Now().Add(time.Hour))
	var err error
	if o.TLS, err = TLSConfig(pem, pem); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.guesses.delay = 0
	l = strangers{l}
	go s.Serve(l, SMTP)
	all := &started{s, t, office, l}
	t.Cleanup(func() {
		l.Close()
		all.stop()
	})
	return all
}

// strangers is a listener for which the clients at 127.1.x.y have the addresses 192.1.x.y, and
// are on another machine.
type strangers struct{ net.Listener }

func (l strangers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if from := *conn.RemoteAddr().(*net.TCPAddr); from.IP.To4()[1] == 1 {
		from.IP = append(net.IP{192}, from.IP.To4()[1:]...)
		return remoteConn{conn, &from}, nil
	}
	return conn, nil
}

// remoteConn is a connection of a client elsewhere.
type remoteConn struct {
	net.Conn
	from net.Addr
}

func (c remoteConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 25}
}
func (c remoteConn) RemoteAddr() net.Addr { return c.from }

// stop ends the server and does not wait for its sessions.
func (s *started) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Close(ctx)
}

// dialog is a client's side of a session.
type dialog struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func newDialog(t *testing.T, conn net.Conn) *dialog { return &dialog{t, conn, bufio.NewReader(conn)} }

func (s *started) dial() *dialog {
	s.t.Helper()
	return s.dialFrom("127.0.0.1")
}

func (s *started) dialFrom(address string) *dialog {
	s.t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := from.Dial("tcp", s.l.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	d := &dialog{s.t, conn, bufio.NewReader(conn)}
	d.expect("220 mx.ours.example")
	return d
}

// stranger is a session whose client is in no known network.
func (s *started) stranger() *dialog {
	s.t.Helper()
	d := s.dialFrom("127.1.2.9")
	d.say("EHLO far.example", "250 ")
	return d
}

func (d *dialog) send(text string) {
	d.t.Helper()
	if _, err := d.conn.Write([]byte(text)); err != nil {
		d.t.Fatal(err)
	}
}

// reply reads a whole reply, "" at the end of the session.
func (d *dialog) reply() string {
	var all strings.Builder
	for {
		line, err := d.in.ReadString('\n')
		all.WriteString(line)
		if err != nil || len(line) < 4 || line[3] != '-' {
			return all.String()
		}
	}
}

// readAll reads to the end of the session.
func (d *dialog) readAll() { _, _ = io.Copy(io.Discard, d.conn) }

// expect reads a reply and fails unless its last line begins so.
func (d *dialog) expect(prefix string) string {
	d.t.Helper()
	reply := d.reply()
	last := strings.TrimSuffix(reply, "\r\n")
	if last = last[strings.LastIndexByte(last, '\n')+1:]; !strings.HasPrefix(last, prefix) {
		d.t.Fatalf("reply %q, want %q", reply, prefix)
	}
	return reply
}

func (d *dialog) say(line, prefix string) string {
	d.t.Helper()
	d.send(line + "\r\n")
	return d.expect(prefix)
}

func (d *dialog) startTLS() {
	d.t.Helper()
	d.say("STARTTLS", "220 ")
	conn := tls.Client(d.conn, &tls.Config{InsecureSkipVerify: true})
	d.conn, d.in = conn, bufio.NewReader(conn)
}

// cutOff fails unless the server says that it closes the connection, and does.
func (d *dialog) cutOff() {
	d.t.Helper()
	d.expect("421 ")
	d.ended()
}

// ended fails unless the server has closed the connection.
func (d *dialog) ended() {
	d.t.Helper()
	if reply := d.reply(); reply != "" {
		d.t.Errorf("reply %q after the end", reply)
	}
}

// messages are the files that the router would take.
func (s *started) messages() []string {
	s.t.Helper()
	var texts []string
	entries, err := os.ReadDir(filepath.Join(s.office, "router"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(s.office, "router", e.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// nothingLeft ends the server, which waits for the messages that sessions are
// still giving up, and fails if an incomplete message is on disk.
func (s *started) nothingLeft() {
	s.t.Helper()
	s.l.Close()
	s.stop()
	if left, _ := filepath.Glob(filepath.Join(s.office, "public", ".*")); len(left) > 0 {
		s.t.Errorf("left: %q", left)
	}
}

func begin(d *dialog) {
	d.t.Helper()
	d.say("EHLO x.example", "250 ")
	d.say("MAIL FROM:<a@far.example>", "250 ")
	d.say("RCPT TO:<b@ours.example>", "250 ")
}
