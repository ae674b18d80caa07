package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Attacks on xferd: by users of this machine, and by a node that may push mail.

// nodesAttack starts xferd and attacks it.
func nodesAttack(s *site) (err error) {
	socket := filepath.Join(s.dir, "po/xferd")
	cf := fmt.Sprintf(configuration, s.dir) + fmt.Sprintf("PARAMnode=n1\nPARAMxfer-nodes=%[1]s/nodes\nPARAMxfer-listen=UNIX:%[2]s\n", s.dir, socket)
	if err := errors.Join(s.write("xferd.cf", cf), s.write("nodes", "n1 UNIX:"+socket+"\nn2 UNIX:/nowhere\nn3 UNIX:/nowhere\n")); err != nil {
		return err
	}
	xferd := exec.CommandContext(s.ctx, filepath.Join(s.dir, "bin/xferd"), "-f", filepath.Join(s.dir, "xferd.cf"), "-Z", filepath.Join(s.dir, "zmailer.conf"), "--max-origins", "1k")
	var log bytes.Buffer
	xferd.Stdout, xferd.Stderr = &log, &log
	if err := xferd.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, xferd.Process.Signal(syscall.SIGTERM), xferd.Wait())
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, log.Bytes())
		}
	}()
	// Only the check of the peer's user is left.
	if err := s.until("xferd listens", func() error { return os.Chmod(socket, 0o777) }); err != nil {
		return err
	}
	if out, err := s.role(s.a, "greet", socket).CombinedOutput(); err != nil || bytes.Contains(out, []byte("250 n1")) {
		return fmt.Errorf("a user introduced himself as a node: %q, %w", out, err)
	}
	return errors.Join(hostileNode(s, socket), manyOrigins(socket))
}

// peer is a connection of a node.
type peer struct {
	net.Conn
	in *bufio.Reader
}

// greet introduces us to xferd as node n2, and returns its answers.
func greet(socket string) (p *peer, said string, err error) {
	conn, err := net.DialTimeout("unix", socket, 10*time.Second)
	if err != nil {
		return nil, "", err
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	p = &peer{conn, bufio.NewReader(conn)}
	for _, line := range []string{"", "LHLO n2 xfer 2\n"} {
		_, err := io.WriteString(p, line)
		answer, e := p.in.ReadString('\n')
		if said += answer; err != nil || e != nil {
			return p, said, nil // the answer says why
		}
	}
	return p, said, nil
}

// push pushes a message with these lines in its control file, and returns the answer.
func (p *peer) push(owner uint32, lines string) (string, error) {
	const body = "Subject: x\n\nfrom a node\n"
	control := "i 1\no 12\nl <node@x>\n" + lines + "m\nSubject: x\n\n"
	_, err := fmt.Fprintf(p, "PUSH 1 %d %d %d %d %d\n%s%s", len(control), len(body), int64(1)<<62, owner, 0o666, control, body)
	if err != nil {
		return "", err
	}
	return p.in.ReadString('\n')
}

// hostileNode pushes a control file that would write into the victim, remove mail, run a
// program and give a user the message.
func hostileNode(s *site, socket string) error {
	waiting, err := s.enqueue(s.b, "r           smtp waits.example bob@waits.example 65534")
	if err != nil {
		return err
	}
	p, said, err := greet(socket)
	if err != nil {
		return err
	}
	defer p.Close()
	answer, err := p.push(s.a.uid, fmt.Sprintf("v %[1]s/victim\nx <%[3]s@x.example>\ns local a@x a@x 0\n"+
		"r           xfer n1 \"|touch %[1]s/planted\" 0\nO n2/S1A/42 0 0 queue local -\n"+
		"r           xfer n1 %[2]s 0\nO n2/S1A/43 0 0 queue local -\n"+
		"r           xfer n1 bob@node.example 0\nO n2/S1A/44 0 0 queue smtp node.example\n", s.dir, s.b.name, waiting))
	if err != nil || !strings.HasPrefix(answer, "250 1 refused=") {
		return fmt.Errorf("after %q, the answer is %q, %w", said, answer, err)
	}
	if answer, err = p.push(0, "s local a@x a@x 0\nr           xfer n1 bob@x 0\nO n3/S1A/42 0 0 queue smtp x\n"); err != nil || !strings.HasPrefix(answer, "550 1 ") {
		return fmt.Errorf("with another node's origin, the answer is %q, %w", answer, err)
	}
	box := filepath.Join(s.dir, "mail", s.b.name)
	err = s.until("its mail is delivered", func() error {
		_, err := os.Lstat(box)
		return errors.Join(err, s.queued(waiting))
	})
	out, e := s.mailq("list", "--json")
	if err = errors.Join(err, e); err == nil && !strings.Contains(out, "node.example") {
		err = errors.New("the other recipient is not in the queue")
	}
	if out, e := s.sh(s.a, "%s", s.userMailq("-i")); e == nil && strings.Contains(out, "node.example") {
		err = errors.Join(err, fmt.Errorf("a user is the owner of its message: %s", out))
	}
	if _, e := os.Lstat(filepath.Join(s.dir, "planted")); e == nil {
		err = errors.Join(err, errors.New("a program was run"))
	}
	_, e = s.mailq("kill", "--yes", "host=node.example")
	return errors.Join(err, e, os.Remove(box))
}

// manyOrigins pushes mail and never confirms it.
func manyOrigins(socket string) error {
	p, _, err := greet(socket)
	if err != nil {
		return err
	}
	defer p.Close()
	answer := ""
	for i := 0; i < 20 && err == nil && !strings.HasPrefix(answer, "451 "); i++ {
		answer, err = p.push(0, fmt.Sprintf("s local a@x a@x 0\nr           xfer n1 bob@many.example 65534\nO n2/S%dA/42 0 0 queue smtp many.example\n", i))
	}
	if err == nil && !strings.HasPrefix(answer, "451 1 too many recipients are not confirmed") {
		err = fmt.Errorf("the last answer is %q", answer)
	}
	return err
}
