package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"zsched/queue"
)

// Attacks by numbers: very much mail for one mailbox, and very many recipients of a message. The
// mail of somebody else is delivered in time.

// floodMail is how many messages a flood has, more than a mailbox takes in a minute.
const floodMail = 20000

// oneSender floods a mailbox from one address block, with senders in one domain.
func oneSender(s *site) error {
	return flood(s, func(int) string { return "s local mallory@forged.example mallory@forged.example 0" })
}

// newSenders floods a mailbox with senders in a new domain each.
func newSenders(s *site) error {
	return flood(s, func(i int) string { return fmt.Sprintf("s local m@f%d.example m@f%d.example 0", i, i) })
}

func flood(s *site, sender func(i int) string) error {
	to := "r           local " + s.a.name + " " + s.a.name + " 0"
	for i := range floodMail {
		if _, err := s.put(s.a, "S SOURCE=192.0.2.0/24", sender(i), to); err != nil {
			return err
		}
	}
	err := othersMail(s)
	_, e := s.mailq("kill", "--yes", "channel=local")
	return errors.Join(err, e, os.RemoveAll(filepath.Join(s.dir, "mail", s.a.name)))
}

// manyRecipients sends eight messages to 250 000 recipients each, as a trusted user may: users of
// one host, and of a thousand hosts.
func manyRecipients(s *site) error {
	if err := s.startEmpty(); err != nil {
		return err
	}
	return toMany(s, 8, 250_000, func(message, n int) string {
		if message%2 == 0 {
			return "big.example"
		}
		return fmt.Sprintf("h%d.example", n%1000)
	})
}

// startEmpty starts the scheduler again with an empty queue.
func (s *site) startEmpty() error {
	err := errors.Join(s.stop(), os.Remove(filepath.Join(s.dir, "po/.scheduler.state")))
	for _, dir := range []string{"po/transport", "po/queue"} {
		path := filepath.Join(s.dir, dir)
		err = errors.Join(err, os.RemoveAll(path), os.Mkdir(path, 0o755))
	}
	return errors.Join(err, s.start())
}

// manyHosts sends ten messages to as many recipients as one of a user may have, with a host each.
func manyHosts(s *site) error {
	if err := s.startEmpty(); err != nil {
		return err
	}
	return toMany(s, 10, queue.MaxUserRecipients, func(message, n int) string { return fmt.Sprintf("m%d-%d.example", message, n) })
}

// toMany sends messages of one source with recipients at hosts, which stay in the queue.
func toMany(s *site, messages, recipients int, host func(message, n int) string) error {
	for i := range messages {
		var to strings.Builder
		for n := range recipients {
			fmt.Fprintf(&to, "\nr           smtp %s u%d@%[1]s 65534", host(i, n), n)
		}
		if _, err := s.put(s.a, "S SOURCE=192.0.2.0/24"+to.String()); err != nil {
			return err
		}
	}
	return othersMail(s)
}

// othersMail sends messages of another source to another mailbox, one after the other, and says
// how long the slowest has taken.
func othersMail(s *site) error {
	path := filepath.Join(s.dir, "mail", s.b.name)
	defer os.Remove(path)
	slowest := time.Duration(0)
	for range 10 {
		began := time.Now()
		if _, err := s.put(s.b, "S SOURCE=198.51.100.0/24", "r           local "+s.b.name+" "+s.b.name+" 0"); err != nil {
			return err
		}
		for exists := false; !exists; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > honestTime {
				return fmt.Errorf("other mail is not delivered after %v", honestTime)
			}
			_, err := os.Lstat(path)
			exists = err == nil
		}
		slowest = max(slowest, time.Since(began))
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	fmt.Printf("      other mail took %v at most\n", slowest.Round(time.Millisecond))
	return nil
}
