package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Attacks with files that a user keeps, or leaves for others: a message that he still has
// open, a submission of any size, and a forged lock of a mailbox.

// growingMessage has a sender make his message a terabyte long while it waits.
func growingMessage(s *site) error {
	if _, err := s.mailq("hold", "local/-", "--yes"); err != nil {
		return err
	}
	mailbox := filepath.Join(s.dir, "mail", s.b.name)
	before := sizeOf(mailbox) // of what other attacks have left
	name, err := s.enqueue(s.a, "r           local - "+s.b.name+" 0")
	if err != nil {
		return err
	}
	// The sender has this descriptor from the time when he wrote the file.
	file, err := os.OpenFile(filepath.Join(s.dir, "po/queue", name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	grow := s.a.command(s.ctx, "/bin/sh", "-c", "truncate -s 1T /proc/self/fd/3")
	grow.ExtraFiles = []*os.File{file}
	if out, err := grow.CombinedOutput(); err != nil {
		return fmt.Errorf("the sender cannot make it grow: %w: %s", err, out)
	}
	_, err = s.mailq("release", "local/-")
	if err == nil {
		err = s.until("its recipient is deferred", func() error {
			out, err := s.mailq("list", "--json")
			if err == nil && !strings.Contains(out, "larger than ROUTERMAXSIZE") {
				err = errors.New("mailq does not say why it waits")
			}
			return err
		})
	}
	if after := sizeOf(mailbox); after != before {
		err = errors.Join(err, fmt.Errorf("%d bytes were delivered", after-before))
	}
	// The answer does not wait for the copy.
	_, e := s.mailq("reroute", "--to", "smtp/large.example", "--yes", name)
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if out, e := s.mailq("list", "--json", "smtp/large.example"); e == nil && strings.Contains(out, "large.example") {
			return errors.Join(err, fmt.Errorf("a copy was made: %s", out))
		}
	}
	_, killed := s.mailq("kill", "--yes", name)
	return errors.Join(err, e, killed)
}

// sizeOf returns the size of a file, 0 if there is none.
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// hugeSubmission leaves a sparse terabyte for the router.
func hugeSubmission(s *site) (err error) {
	const to = "to <bob@huge.example>\\nenv-end\\nSubject: x\\n\\n"
	if out, err := s.sh(s.a, "printf '%s' >po/router/.huge && truncate -s 1T po/router/.huge && mv po/router/.huge po/router/%s", to, numberOf(300)); err != nil {
		return fmt.Errorf("the submission: %w: %s", err, out)
	}
	router := exec.CommandContext(s.ctx, filepath.Join(s.dir, "bin/router"), "-i", "-Z", filepath.Join(s.dir, "zmailer.conf"))
	var log bytes.Buffer
	router.Stdout, router.Stderr = &log, &log
	if err := router.Start(); err != nil {
		return err
	}
	err = s.until("a notice waits for its sender", func() error {
		out, err := s.mailq("list", "--json")
		if err == nil && (!strings.Contains(out, "toolarge") || strings.Contains(out, "huge.example\",\"channel\":\"smtp")) {
			err = errors.New("mailq does not list it")
		}
		return err
	})
	err = errors.Join(err, router.Process.Signal(syscall.SIGTERM), router.Wait())
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.Bytes())
	}
	_, err = s.mailq("kill", "--yes", "channel=error")
	return err
}

// forgedLock leaves a lock that looks like that of a delivery which was killed: a delivery
// would cut the mailbox back to the size in it.
func forgedLock(s *site) error {
	box := filepath.Join(s.dir, "mail", s.b.name)
	to := "r           local - " + s.b.name + " 0"
	_ = os.Remove(box + ".lock") // of an earlier attack
	if _, err := s.put(s.a, to); err != nil {
		return err
	}
	var before []byte
	err := s.until("the first message is delivered", func() (err error) {
		if before, err = os.ReadFile(box); err == nil && !bytes.HasSuffix(before, []byte("body\n\n")) {
			err = errors.New("not yet")
		}
		return err
	})
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(before), "\n")
	lock := fmt.Sprintf("%d\n%s\nstarted 1 x\n0 %q\n", 1<<22-1, host, first+"\n")
	forge := s.a.command(s.ctx, "/bin/sh", "-c", "cat >"+box+".lock && touch -d '1 hour ago' "+box+".lock")
	forge.Stdin = strings.NewReader(lock)
	if out, err := forge.CombinedOutput(); err != nil {
		return fmt.Errorf("the lock: %w: %s", err, out)
	}
	name, err := s.put(s.a, to)
	if err == nil {
		err = s.tried(name)
	}
	after, e := os.ReadFile(box)
	if err = errors.Join(err, e); err == nil && !bytes.HasPrefix(after, before) {
		err = fmt.Errorf("the mailbox had %q and has %q", before, after)
	}
	_ = os.Remove(box + ".lock")
	_, _ = s.mailq("kill", "--yes", name) // or it is delivered
	return errors.Join(err, s.until("the mailbox can be removed", func() error {
		if _, err := os.Lstat(filepath.Join(s.dir, "po/transport", name)); err == nil {
			return errors.New("the message is still there")
		}
		return os.Remove(box)
	}))
}
