//go:build linux && amd64

package crashtest

// The scenario: what happens at a site in one run.

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/textproto"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"zsched/internal/testing/ledger"
)

// liveTimeout bounds the first part of a scenario. settleTime bounds the second, in which
// nothing is killed and nothing fails any more: mail that has not arrived by then counts
// as lost. It is counted in looks at the queue, one each lookInterval. A busy machine
// makes both the looks and the programs slow, and the verdict does not depend on it.
const (
	liveTimeout  = 6 * time.Second
	settleTime   = 4 * time.Minute
	lookInterval = 20 * time.Millisecond
)

// run runs the scenario. The promises are kept when it returns, or the test has
// failed.
func (s *site) run() {
	if err := s.start(); err != nil {
		s.t.Error(err)
		return
	}
	s.awaitReady()
	if s.isReady != nil {
		s.isReady()
	}
	s.live()
	s.stop()
	s.decide = nil
	s.makeOld()
	if err := s.start(); err != nil {
		s.t.Error(err)
		return
	}
	s.settle()
	s.stop()
	s.audit()
}

// live submits mail and gives orders.
func (s *site) live() {
	var all sync.WaitGroup
	all.Go(func() { s.order("hold", "smtp/held.example") })
	all.Go(func() {
		s.smtp("s1", "r1@ok.example NOTIFY=SUCCESS,FAILURE", "l1@ok.example")
		s.smtp("s2", "f2@ok.example", "u2@unmarked.example NOTIFY=SUCCESS,FAILURE")
	})
	all.Go(func() {
		s.sendmail("s3", "to3@here.example", "o3@ok.example")
		s.sendmail("s4", "n4@never.example", "e4@error.example")
		s.sendmail("s6", "p6@sm.example", "team@here.example")
	})
	all.Go(func() {
		s.ctlfile("s5", "smtp/ok.example/c5@ok.example", "hold/AGE:1s/h5@ok.example", "mbox/-/"+s.user)
	})
	all.Go(func() {
		s.ctlfile("s7", "smtp/gate.example/g7@gate.example")
		s.order("hold", "sender=s7@sender.example")
		s.order("release", "sender=s7@sender.example")
	})
	all.Go(func() {
		s.ctlfile("s8", "smtp/gate.example/g8@gate.example")
		s.resend("s8", "reroute", "--to", "smtp/other.example")
	})
	all.Go(func() {
		s.ctlfile("s9", "smtp/gate.example/g9@gate.example")
		s.resend("s9", "requeue")
	})
	all.Go(func() {
		s.ctlfile("s10", "smtp/gate.example/x10@gate.example")
		s.order("expire", "sender=s10@sender.example")
	})
	all.Go(func() {
		s.ctlfile("s11", "smtp/held.example/t11@held.example", "smtp/unmarked.example/f11@unmarked.example")
	})
	all.Wait()
	s.signal("scheduler", syscall.SIGUSR1)
	s.order("release", "smtp/held.example")
	s.sink.open()
	if !s.await(liveTimeout) {
		s.note("after %v, these files and promises are open: %q %q", liveTimeout, s.waiting(), s.missing())
	}
}

// settle waits until every promise is kept. Orders that were lost are given again.
func (s *site) settle() {
	s.sink.open()
	for n := 0; n < int(settleTime/time.Second) && !s.look(int(time.Second/lookInterval)); n++ {
		_, _ = s.mailq("release", "smtp/held.example")
		for _, sender := range []string{"s7", "s8", "s9", "s10"} {
			_, _ = s.mailq("release", "sender="+sender+"@sender.example")
		}
		_, _ = s.mailq("expire", "sender=s10@sender.example", "--yes")
	}
	s.countMailboxes()
	for _, why := range append(s.ledger.Unkept(), s.ledger.Wrong()...) {
		s.t.Errorf("%s", why)
	}
}

// await waits until the promises are kept and the queue is empty.
func (s *site) await(limit time.Duration) bool {
	for end := time.Now().Add(limit); !s.look(1); {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// look is await with a number of looks as the limit.
func (s *site) look(times int) bool {
	for range times {
		if len(s.waiting()) == 0 && len(s.missing()) == 0 {
			return true
		}
		time.Sleep(lookInterval)
	}
	return false
}

// missing lists the promises that are not kept, mailboxes included.
func (s *site) missing() []string {
	var list []string
	for _, why := range s.ledger.Unkept() {
		address, _, _ := strings.Cut(why, ":")
		if sender := mailboxOf[address]; sender != "" && s.inMailboxes(sender) > 0 {
			continue
		}
		list = append(list, why)
	}
	return list
}

// waiting lists the files of mail in the queue.
func (s *site) waiting() (list []string) {
	for _, dir := range []string{"po/router", "po/transport", "po/hold/transport"} {
		_ = filepath.WalkDir(s.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && d.Name()[0] >= '0' && d.Name()[0] <= '9' {
				list = append(list, path[len(s.dir)+1:])
			}
			return nil
		})
	}
	return list
}

// mailboxOf names, for each recipient with a mailbox, the sender of its message.
// Several recipients share a mailbox; their messages are told apart by their senders.
var mailboxOf = map[string]string{"to3@here.example": "s3", "team@here.example": "s6", "local5": "s5"}

// fateOf returns the fate of an address, which its first letter selects.
func fateOf(address string) ledger.Fate {
	switch address[0] {
	case 'f', 'e':
		return ledger.Fails
	case 'n', 'x':
		return ledger.NeverEnds
	}
	return ledger.Delivers
}

// promise adds the recipients of a message to the ledger.
func (s *site) promise(sender string, recipients ...string) (addresses []string) {
	for _, to := range recipients {
		address, dsn, _ := strings.Cut(to, " ")
		if i := strings.LastIndex(address, "/"); i >= 0 { // CHANNEL/HOST/USER
			if address = address[i+1:]; !strings.Contains(address, "@") {
				address = "local5"
			}
		}
		s.sink.mu.Lock()
		switch address[0] {
		case 'l':
			s.sink.defers[address] = 1
		case 'g', 'x':
			s.sink.defers[address] = -1
		}
		s.sink.mu.Unlock()
		s.ledger.Add(&ledger.Entry{Address: address, Sender: sender + "@sender.example", Fate: fateOf(address), WantsSuccess: dsn != ""})
		addresses = append(addresses, address)
		if address == "team@here.example" { // a list
			s.ledger.Add(&ledger.Entry{Address: "t6@ok.example", Sender: sender + "@sender.example"})
			addresses = append(addresses, "t6@ok.example")
		}
	}
	return addresses
}

func messageOf(sender string) string {
	return "From: " + sender + "@sender.example\nSubject: " + sender + "\n\n" + ledger.Body(sender+"@sender.example")
}

// sendmail submits a message with sendmail(8).
func (s *site) sendmail(sender string, to ...string) {
	addresses := s.promise(sender, to...)
	args := append([]string{"-Z", s.path("zmailer.conf"), "-i", "-f", sender + "@sender.example"}, to...)
	if s.command("sendmail", messageOf(sender), args...) {
		s.ledger.Accept(addresses)
	}
}

// ctlfile submits a message with ctlfile(8), without the router.
func (s *site) ctlfile(sender string, to ...string) {
	addresses := s.promise(sender, to...)
	args := append([]string{"submit", "-P", s.path("po"), "--from", sender + "@sender.example", "--privilege", strconv.Itoa(os.Getuid())}, to...)
	if s.command("ctlfile", messageOf(sender), args...) {
		s.ledger.Accept(addresses)
	}
}

// smtp submits a message to the SMTP server. A real client whose connection breaks sends
// the message again, which makes a second copy if only the reply was lost; this one does
// not.
func (s *site) smtp(sender string, to ...string) {
	addresses := s.promise(sender, to...)
	var conn net.Conn
	var err error
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err = net.Dial("unix", s.path("run/smtp")); err == nil {
			break
		}
	}
	if err != nil {
		s.note("the SMTP server cannot be reached: %v", err)
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := submitBySMTP(textproto.NewConn(conn), sender, to); err == nil {
		s.ledger.Accept(addresses)
	}
}

func submitBySMTP(c *textproto.Conn, sender string, to []string) error {
	say := func(want int, line string) error {
		if line != "" {
			if err := c.PrintfLine("%s", line); err != nil {
				return err
			}
		}
		_, _, err := c.ReadResponse(want)
		return err
	}
	if err := errors.Join(say(220, ""), say(250, "EHLO client.example"), say(250, "MAIL FROM:<"+sender+"@sender.example>")); err != nil {
		return err
	}
	for _, r := range to {
		address, dsn, _ := strings.Cut(r, " ")
		if err := say(250, "RCPT TO:<"+address+"> "+dsn); err != nil {
			return err
		}
	}
	if err := say(354, "DATA"); err != nil {
		return err
	}
	w := c.DotWriter()
	_, err := io.WriteString(w, messageOf(sender))
	return errors.Join(err, w.Close(), say(250, ""))
}

// orderTimeout is how long an order is repeated while it finds no mail or gets no
// answer.
const orderTimeout = 10 * time.Second

// order repeats an order until it succeeds, but not without a pause: each reads the files
// again that the scheduler could not read. Its mail may have been delivered already, so it
// stops early if nothing in the queue matches.
func (s *site) order(args ...string) bool {
	var out string
	var err error
	nothing := 0
	for end := time.Now().Add(orderTimeout); time.Now().Before(end) && nothing < 10; time.Sleep(200 * time.Millisecond) {
		if out, err = s.mailq(append(args, "--because", "a test")...); err == nil {
			return true
		}
		if strings.Contains(out, "nothing in the queue matches") {
			if nothing++; args[0] == "release" {
				return false
			}
		}
	}
	s.note("%s: %s", args[0], strings.TrimSpace(out))
	return false
}

// resend gives a REQUEUE or REROUTE, which the ledger notes first.
func (s *site) resend(sender string, order ...string) {
	s.ledger.Change("g"+sender[1:]+"@gate.example", func(e *ledger.Entry) { e.Resent = true })
	s.order(append(order, "sender="+sender+"@sender.example")...)
}

// inMailboxes counts the complete copies of a sender's message in the mailboxes.
func (s *site) inMailboxes(sender string) (n int) {
	body := ledger.Body(sender + "@sender.example")
	_ = filepath.WalkDir(s.path("mail"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(filepath.Dir(path)) == "tmp" {
			return nil
		}
		text, _ := os.ReadFile(path)
		n += strings.Count(string(text), body)
		return nil
	})
	return n
}

// countMailboxes tells the ledger what is in the mailboxes.
func (s *site) countMailboxes() {
	for address, sender := range mailboxOf {
		for range s.inMailboxes(sender) {
			s.ledger.Deliver(address, ledger.Body(sender+"@sender.example"), s.lives(), s.sink.reason)
		}
	}
}

// makeOld sets back the times of control files that a crash left with a temporary name.
// The scheduler then completes them at its next start, and not only when they are a
// quarter of an hour old.
func (s *site) makeOld() {
	_ = filepath.WalkDir(s.path("po/transport"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name()[0] == '.' {
			old := time.Now().Add(-20 * time.Minute)
			_ = os.Chtimes(path, old, old)
		}
		return nil
	})
}

// audit looks at what is left in the postoffice.
func (s *site) audit() {
	for _, dir := range []string{"po/transport", "po/queue", "po/router", "po/public", "po/postman", "po/corrupt", "po/hold"} {
		_ = filepath.WalkDir(s.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			s.leftover(path[len(s.dir)+1:])
			return nil
		})
	}
}

// leftover judges a file that is left.
func (s *site) leftover(path string) {
	text, _ := os.ReadFile(s.path(path))
	switch {
	case s.takesBack && strings.HasPrefix(path, "po/corrupt/router/") && strings.Contains(path, ".control"):
		// The submission was taken back because its name could not be made durable, and then
		// the removal of its staged control file failed as well. The ledger says whether mail is lost.
	case strings.HasPrefix(path, "po/corrupt/"):
		s.t.Errorf("%s: quarantined: %s", path, text)
	case !strings.HasPrefix(path, "po/hold/orders/"): // their removal may take an hour
		s.left = append(s.left, path)
	}
}

// logs prints the ends of the logs.
func (s *site) logs() {
	for _, note := range s.notes {
		s.t.Log(note)
	}
	for _, name := range []string{"scheduler.err", "events", "router.err", "smtpserver.err", "sendmail.err", "ctlfile.err"} {
		if text, _ := os.ReadFile(s.path("log/" + name)); len(text) > 0 {
			s.t.Logf("--- %s\n%s", name, text[max(0, len(text)-6000):])
		}
	}
	s.t.Logf("--- files\n%s", strings.Join(s.files(), "\n"))
}

// files lists the files of the postoffice.
func (s *site) files() (list []string) {
	_ = filepath.WalkDir(s.path("po"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, path[len(s.dir)+1:])
		}
		return nil
	})
	return list
}
