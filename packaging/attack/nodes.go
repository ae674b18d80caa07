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
	"syscall"
	"time"
)

// Attacks on xferd by users of this machine.

// nodesAttack starts xferd and attacks it.
func nodesAttack(s *site) (err error) {
	socket := filepath.Join(s.dir, "po/xferd")
	cf := fmt.Sprintf(configuration, s.dir, s.slowPort) + fmt.Sprintf("PARAMnode=n1\nPARAMxfer-nodes=%s/nodes\n", s.dir)
	if err := errors.Join(s.write("xferd.cf", cf), s.write("nodes", "n1 UNIX:"+socket+"\nn2 UNIX:/nowhere\n")); err != nil {
		return err
	}
	xferd := exec.CommandContext(s.ctx, filepath.Join(s.dir, "bin/xferd"), "-f", filepath.Join(s.dir, "xferd.cf"), "-Z", filepath.Join(s.dir, "zmailer.conf"))
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
	return nil
}

// greet introduces us to xferd as node n2, and returns its answers.
func greet(socket string) (said string, err error) {
	conn, err := net.DialTimeout("unix", socket, 10*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	for _, line := range []string{"", "LHLO n2 xfer 3\n"} {
		_, err := io.WriteString(conn, line)
		answer, e := in.ReadString('\n')
		if said += answer; err != nil || e != nil {
			return said, nil // the answer says why
		}
	}
	return said, nil
}
