package smtpserver

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"zsched/internal/testing/certificatetest"
	"zsched/queue"
)

// Sessions over pipes, where a write waits until the other side reads, with time that passes at once.

// pipes is a server with one session at most, for a test with synctest.
type pipes struct {
	*Server
	t *testing.T
}

func startPipes(t *testing.T) *pipes {
	t.Helper()
	o := Default()
	o.Hostname, o.Domains = "mx.ours.example", []string{"ours.example"}
	o.Router = queue.Router{Postoffice: t.TempDir()}
	for _, dir := range []string{"public", "router"} {
		if err := os.Mkdir(filepath.Join(o.Router.Postoffice, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	pem := filepath.Join(o.Router.Postoffice, "mx.pem")
	certificatetest.Write(t, pem, time.Now().Add(time.Hour))
	var err error
	if o.TLS, err = TLSConfig(pem, pem); err != nil {
		t.Fatal(err)
	}
	o.MinFree, o.MaxSessions, o.Passwords = 0, 1, passwordFile(t)
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return &pipes{s, t}
}

// from returns a connection of a client at 192.0.block.1, and the client's side of it.
func (s *pipes) from(block byte) (ours, theirs net.Conn) {
	ours, theirs = net.Pipe()
	s.t.Cleanup(func() { theirs.Close() })
	return remoteConn{ours, &net.TCPAddr{IP: net.IPv4(192, 0, block, 1), Port: 1025}}, theirs
}

// serve begins a session, and returns the client's side of it.
func (s *pipes) serve(block byte, p Protocol) *dialog {
	ours, theirs := s.from(block)
	go s.ServeConn(ours, p)
	return newDialog(s.t, theirs)
}

// mute begins a session whose client reads only the first byte after the handshake: the server is
// writing the others then.
func (s *pipes) mute(p Protocol) {
	s.t.Helper()
	d := s.serve(1, p)
	if p.TLS {
		if err := tls.Client(d.conn, &tls.Config{InsecureSkipVerify: true}).Handshake(); err != nil {
			s.t.Fatal(err)
		}
	}
	d.readByte()
}

func (d *dialog) readByte() {
	d.t.Helper()
	if _, err := d.conn.Read(make([]byte, 1)); err != nil {
		d.t.Fatal(err)
	}
}

// A session whose client does not read gives its place to a client of another block.
func TestSessionWhoseClientDoesNotReadMakesRoom(t *testing.T) {
	for name, begin := range map[string]func(s *pipes){
		"the greeting":                     func(s *pipes) { s.mute(SMTP) },
		"anything after the TLS handshake": func(s *pipes) { s.mute(SMTPS) },
		"replies to commands that came together": func(s *pipes) {
			d := s.serve(1, SMTP)
			d.expect("220 ")
			d.send(strings.Repeat("EHLO x\r\n", 20) + "NOOP")
			d.readByte()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startPipes(t)
				begin(s)
				s.serve(2, SMTP).expect("220 ")
				if n := s.Counts().Open; n != 1 {
					t.Errorf("%d sessions", n)
				}
			})
		})
	}
}

// So does a session that waits for the answer to a password.
func TestSessionThatLogsInMakesRoom(t *testing.T) {
	for name, busy := range map[string]int{"while it waits for a check": hashesAtOnce, "while its refusal is delayed": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startPipes(t)
				for range busy {
					s.guesses.begin("busy")
				}
				ours, _ := s.from(1)
				c := s.begin(ours, SMTP)
				go func() {
					defer s.leave(c)
					if err := c.authenticate("", "ann", "guess"); err != errPassword {
						t.Error(err)
					}
				}()
				synctest.Wait()
				s.serve(2, SMTP).expect("220 ")
				for range busy {
					s.guesses.end("busy")
				}
			})
		})
	}
}

// A client that does not read holds up a stop for a second.
func TestStopDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	for name, p := range map[string]Protocol{"plain": SMTP, "TLS": SMTPS} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startPipes(t)
				s.mute(p)
				began := time.Now()
				if err := s.Close(t.Context()); err != nil || time.Since(began) != lastWriteTimeout {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// The client of a message that is complete long after a stop has begun has a second to read the reply.
func TestMessageIsAnsweredLongAfterAStop(t *testing.T) {
	for name, reads := range map[string]bool{"a client that reads": true, "a client that does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startPipes(t)
				d := s.serve(1, SMTP)
				d.expect("220 ")
				begin(d)
				d.say("DATA", "354 ")
				synctest.Wait()
				closed := make(chan error, 1)
				go func() { closed <- s.Close(context.Background()) }()
				time.Sleep(10 * lastWriteTimeout)
				d.send(".\r\n")
				began := time.Now()
				if reads {
					time.Sleep(lastWriteTimeout / 2)
					d.expect("250 ")
					d.expect("421 4.3.2")
				}
				if err := <-closed; err != nil || !reads && time.Since(began) != lastWriteTimeout {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}
