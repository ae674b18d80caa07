package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Attacks on the delivery to users: the mail spool, and programs that users name.

// slowDeliveries submits more mail for sleeping commands of one user than there are
// sessions. A helper process that its user has stopped with a signal is as slow.
func slowDeliveries(s *site) error {
	to := fmt.Sprintf(`r           local %s "|test -e %s/released || sleep 60" %d`, s.a.name, s.dir, s.a.uid)
	for range 16 {
		if _, err := s.put(s.b, to); err != nil {
			return err
		}
	}
	err := s.until("half of the sessions are occupied", func() error {
		return s.b.command(s.ctx, "sh", "-c", fmt.Sprintf("test $(pgrep -c -x -u %d sleep) = 4", s.a.uid)).Run()
	})
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, "mail", s.b.name)
	if _, err := s.put(s.a, "r           local "+s.b.name+" "+s.b.name+" 0"); err != nil {
		return err
	}
	err = s.until("the mail of another user is delivered", func() error {
		_, err := os.Stat(path)
		return err
	})
	// From now on the commands end at once. These are the user's only processes.
	_ = s.a.command(s.ctx, "pkill", "-x", "-u", fmt.Sprint(s.a.uid), "sleep").Run()
	return errors.Join(err, s.write("released", ""), os.Remove(path))
}

// helperIsClosed has mail delivered to a user whose process tries to trace each new
// process of the user, and to take its descriptors.
func helperIsClosed(s *site) error {
	var found bytes.Buffer
	cmd := s.role(s.b, "enter")
	cmd.Stdout = &found
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// A helper can be gone before the process looks, so mail is sent until it has
	// seen enough.
	sent := 0
	seen := s.until("the user's process has seen helpers", func() error {
		if _, err := s.put(s.a, "r           local - "+s.b.name+" 0"); err != nil {
			return err
		}
		sent++
		if len(ended) == 0 {
			return fmt.Errorf("it has not, after %d messages", sent)
		}
		return nil
	})
	if seen != nil {
		_ = cmd.Process.Kill()
	}
	box := filepath.Join(s.dir, "mail", s.b.name)
	delivered := s.until("the mail is delivered", func() error {
		text, err := os.ReadFile(box)
		if n := bytes.Count(text, []byte("\nFrom ")) + 1; err == nil && n < sent {
			err = fmt.Errorf("%d of %d are there", n, sent)
		}
		return err
	})
	err := errors.Join(seen, delivered, <-ended, os.Remove(box))
	var entered, helpers int
	if _, e := fmt.Sscanf(found.String(), "entered %d of %d", &entered, &helpers); e != nil || entered > 0 {
		err = errors.Join(err, fmt.Errorf("the user's process says %q", found.String()))
	}
	return err
}

func mailSpool(s *site) error {
	box := filepath.Join(s.dir, "mail", s.b.name)
	deliver := func(line string) error {
		if out, err := s.sh(s.a, line, box, s.dir); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		name, err := s.put(s.a, "r           local - "+s.b.name+" 0")
		if err != nil {
			return err
		}
		if err = s.tried(name); err != nil {
			err = fmt.Errorf("%s: %w", line, err)
		}
		gone := s.until("the message is gone", func() error {
			if _, err := os.Lstat(filepath.Join(s.dir, "po/transport", name)); errors.Is(err, os.ErrNotExist) {
				return nil
			}
			_, err := s.mailq("kill", name)
			return errors.Join(err, errors.New("it is still there"))
		})
		_ = os.Remove(box)
		return errors.Join(err, gone, s.victimIsUnchanged())
	}
	return errors.Join(deliver("ln -s %[2]s/victim %[1]s"), deliver("mkfifo %[1]s # %[2]s"),
		deliver("echo 1 >%[1]s.lock # %[2]s"))
}
