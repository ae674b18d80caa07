package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// Attacks on the sessions of a ring: mail for servers that never answer. A share may not
// have all sessions (sharescale), so other mail finds one.

// slowMail is how many messages, or recipients of one message, an attack sends. The ring has
// 400 sessions.
const slowMail = 2000

// honestTime is how long the mail of somebody else may take meanwhile.
const honestTime = 15 * time.Second

// slowNotices sends notices, as for mail that asked for them with senders in other domains.
func slowNotices(s *site) error {
	return slowSessions(s, func(i int) error {
		_, err := s.put(s.a, "s error - <> 0", toSlow(i))
		return err
	})
}

// slowUsers sends the mail of six local users, one after the other, who conspire.
func slowUsers(s *site) error {
	return slowSessions(s, func(i int) error {
		_, err := s.put(s.a, fmt.Sprintf("S SOURCE=uid:%d", int(s.a.uid)+i*6/slowMail), fmt.Sprintf("s local - u%d@x%d.example 0", i, i), toSlow(i))
		return err
	})
}

// slowList sends lists of 600 hosts each, as an alias expands to them.
func slowList(s *site) error {
	const hosts = 600
	return slowSessions(s, func(i int) error {
		if i%hosts != 0 {
			return nil
		}
		lines := []string{"S SOURCE=192.0.2.0/24"}
		for n := range hosts {
			lines = append(lines, toSlow(i+n))
		}
		_, err := s.put(s.a, lines...)
		return err
	})
}

// toSlow is a recipient at a server that says nothing, or that never ends its greeting.
func toSlow(i int) string {
	host := fmt.Sprintf("[127.%d.%d.%d]", 1+i%2, 1+i/250, 1+i%250)
	return "r           slow " + host + " u@" + host + " 65534"
}

// slowSessions sends slow mail until it has all sessions that it gets, and then mail of
// somebody else, which must be delivered in time.
func slowSessions(s *site, send func(i int) error) error {
	servers, err := newSlowServers(s)
	if err != nil {
		return err
	}
	defer servers.close()
	for i := range slowMail {
		if err := send(i); err != nil {
			return err
		}
	}
	if err := servers.settle(s); err != nil {
		return err
	}
	_, err = s.put(s.b, "S SOURCE=198.51.100.0/24", "r           slow [127.9.0.1] u@[127.9.0.1] 65534")
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-servers.delivered:
	case <-time.After(honestTime):
		err = fmt.Errorf("other mail is not delivered after %v, while %d sessions wait", honestTime, servers.held.Load())
	}
	_, e := s.mailq("kill", "--yes", "channel=slow")
	if err == nil {
		fmt.Printf("      %d sessions were held, other mail took %v\n", servers.held.Load(), time.Since(began).Round(time.Millisecond))
	}
	return errors.Join(err, e)
}

// slowServers are the servers of all addresses of 127/8, on the port of slowPort.
type slowServers struct {
	listener  net.Listener
	held      atomic.Int32  // connections without an answer
	delivered chan struct{} // a message has come to 127.9.0.1
	closing   chan struct{}
}

func newSlowServers(s *site) (*slowServers, error) {
	l, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", s.slowPort))
	if err != nil {
		return nil, err
	}
	v := &slowServers{listener: l, delivered: make(chan struct{}, 1), closing: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go v.serve(c)
		}
	}()
	return v, nil
}

// close ends all sessions.
func (v *slowServers) close() {
	_ = v.listener.Close()
	close(v.closing)
}

func (v *slowServers) serve(c net.Conn) {
	defer c.Close()
	switch host := c.LocalAddr().String(); {
	case strings.HasPrefix(host, "127.9."):
		if err := receive(c); err == nil {
			v.delivered <- struct{}{}
		}
	case strings.HasPrefix(host, "127.1."):
		v.held.Add(1)
		<-v.closing
	default:
		v.held.Add(1)
		for {
			if _, err := io.WriteString(c, "220-wait\r\n"); err != nil {
				return
			}
			select {
			case <-time.After(time.Second):
			case <-v.closing:
				return
			}
		}
	}
}

// receive takes a message.
func receive(c net.Conn) error {
	in, data := bufio.NewScanner(c), false
	_, err := io.WriteString(c, "220 fast\r\n")
	for err == nil && in.Scan() {
		reply := "250 ok\r\n"
		switch line := in.Text(); {
		case data && line != ".":
			continue
		case data:
			_, err = io.WriteString(c, reply)
			return err
		case strings.HasPrefix(line, "DATA"):
			data, reply = true, "354 go on\r\n"
		}
		_, err = io.WriteString(c, reply)
	}
	return errors.Join(err, in.Err(), errors.New("no message came"))
}

// settle waits until some sessions wait and no more begin for two seconds.
func (v *slowServers) settle(s *site) error {
	before, since := int32(-1), time.Now()
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && s.ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		if n := v.held.Load(); n != before {
			before, since = n, time.Now()
		} else if n >= 200 && time.Since(since) > 2*time.Second {
			return nil
		}
	}
	return fmt.Errorf("only %d sessions wait", before)
}
