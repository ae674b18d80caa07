package main

// The attacks, and those on the queue, its sockets and router/.

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const toSMTP = "r           smtp b.example bob@b.example 65534"

// attacks are tried in this order. The scheduler runs all the time.
var attacks = []struct {
	name string
	try  func(s *site) error
}{
	{"names in the queue are out of reach", queueIsClosed},
	{"a message that a user wrote into hold/ stays there", heldMailIsRoots},
	{"a control file that its sender has open waits", openControlFileWaits},
	{"a sender's hidden right to write is gone", accessListIsGone},
	{"a user can neither lock nor change what says who owns the postoffice", ownerIsClosed},
	{"the notify socket is root's", notifyIsClosed},
	{"orders of a user are refused", ordersAreRefused},
	{"mailq -i shows a user only his own mail", ownMailIsShown},
	{"addresses that run programs do not reach the router", programsAreRefused},
	{"links in public/ and router/ lead nowhere", linksInRouter},
	{"a hash directory that a user made gets no mail", hashDirectory},
	{"a verbose log is not written into another's file", verboseLog},
	{"the rendezvous file follows no link", rendezvous},
	{"slow deliveries of one user do not stop those of others", slowDeliveries},
	{"a delivery helper cannot be entered by its user", helperIsClosed},
	{"links, FIFOs and locks in the mail spool", mailSpool},
	{"no user's list is included: it gives no rights and shows no file of root", listsOfUsers},
	{"FIFOs, sockets and devices where users can write", specialFiles},
	{"thousands of links in router/, some renamed all the time, stop no mail, and the log says whose they are", crowdedRouter},
	{"hundreds of thousands of bad files in router/ do not delay other mail", badFiles},
	{"a message that its sender makes grow is neither delivered nor copied", growingMessage},
	{"a submission of a terabyte fills no disk, and is answered", hugeSubmission},
	{"a forged lock does not cut a mailbox", forgedLock},
	{"users cannot push to xferd", nodesAttack},
	{"notices for hosts that never answer leave sessions for other mail", slowNotices},
	{"a list of 600 hosts that never answer leaves sessions for other mail", slowList},
	{"mail of six users for hosts that never answer leaves sessions for other mail", slowUsers},
	{"a flood to one mailbox, its senders in one domain, does not delay other mail", oneSender},
	{"a flood to one mailbox, its senders in a new domain each, does not delay other mail", newSenders},
	{"two thousand silent connections keep nobody out", silentConnections},
	{"a user who sends to a thousand hosts, again and again, does not delay other mail", manySubmissions},
	{"eight messages to 250000 recipients each do not delay other mail", manyRecipients},
	{"ten messages to 20000 hosts each do not delay other mail", manyHosts},
}

func queueIsClosed(s *site) error {
	name, err := s.enqueue(s.a, toSMTP)
	if err != nil {
		return err
	}
	return s.mayNot(s.a, "ls po/transport", "ls po/queue", "ls po/hold", "ls po/queue/.tmp",
		"cat po/transport/"+name, "cat po/queue/"+name, "chmod 666 po/transport/"+name,
		"echo x >>po/transport/"+name, "ln zmailer.conf po/transport/1", "ln -s /etc/passwd po/queue/1",
		"mv po/transport po/t", "mv po/transport/"+name+" po/public/", "mkdir po/transport/A", "rm -r po/public")
}

func heldMailIsRoots(s *site) error {
	// The scheduler does not take it, so no order has an effect.
	out, err := s.mailq("release", planted)
	if err == nil {
		err = fmt.Errorf("mailq release says %q", out)
	} else if text := err.Error(); strings.Contains(text, "only root's files are used here") || strings.Contains(text, "nothing in the queue matches") {
		err = nil
	}
	if _, e := os.Lstat(filepath.Join(s.dir, "po/hold/transport", planted)); e != nil {
		err = errors.Join(err, fmt.Errorf("it was moved: %w", e))
	}
	return errors.Join(err, s.mayNot(s.a, "ls po/hold", "touch po/hold/transport/1", "test -e planted"))
}

func openControlFileWaits(s *site) error {
	name, file, err := s.submit(s.a, true, "r           local - "+s.a.name+" 0")
	if err != nil {
		return err
	}
	defer file.Close()
	path := filepath.Join(s.dir, "po/transport", name)
	err = s.until("the file is root's", func() error {
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil || st.Uid != 0 || st.Mode&0o777 != 0 {
			return fmt.Errorf("owner %d, mode %#o, %w", st.Uid, st.Mode&0o777, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.scheduler.Process.Signal(syscall.SIGALRM); err != nil {
		return err
	}
	// The scheduler reads the names in order: when a later message is there, this one
	// has been tried again.
	if _, err := s.enqueue(s.b, toSMTP); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "mail", s.a.name)); err == nil {
		return errors.New("it was delivered while the sender had it open")
	}
	if err := errors.Join(file.Close(), s.scheduler.Process.Signal(syscall.SIGALRM)); err != nil {
		return err
	}
	return s.until("it is delivered when the sender has closed it", func() error {
		_, err := os.Lstat(filepath.Join(s.dir, "mail", s.a.name))
		return err
	})
}

func accessListIsGone(s *site) error {
	// The file is made with the list, as its owner could have set it.
	const list = "system.posix_acl_access"
	name, file, err := s.submit(s.a, true, toSMTP)
	if err != nil {
		return err
	}
	defer file.Close()
	path := filepath.Join(s.dir, "po/transport", name)
	entry := func(tag, perm byte, id uint32) []byte {
		return []byte{tag, 0, perm, 0, byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}
	}
	const none = 0xffffffff
	value := []byte{2, 0, 0, 0}
	for _, e := range [][]byte{entry(1, 6, none), entry(2, 6, s.a.uid), entry(4, 6, none), entry(16, 6, none), entry(32, 0, none)} {
		value = append(value, e...)
	}
	if err := syscall.Setxattr(path, list, value, 0); err != nil {
		return nil // a file system without such lists
	}
	if err := errors.Join(os.Chown(path, int(s.a.uid), 0), file.Close(), s.scheduler.Process.Signal(syscall.SIGALRM)); err != nil {
		return err
	}
	if err := s.queued(name); err != nil {
		return err
	}
	if n, err := syscall.Getxattr(path, list, nil); err != syscall.ENODATA {
		return fmt.Errorf("the list has %d bytes, error %v", n, err)
	}
	return nil
}

func ownerIsClosed(s *site) error {
	return s.mayNot(s.a, "exec 3<po/.owner", "exec 3>>po/.owner", "rm -f po/.owner",
		"exec 3>>po/.pid.scheduler", "rm -f po/.pid.scheduler")
}

func notifyIsClosed(s *site) error {
	if _, err := os.Lstat(filepath.Join(s.dir, "po/.scheduler.notify")); err != nil {
		return err
	}
	cmd := s.role(s.a, "datagram", "po/.scheduler.notify")
	if out, err := cmd.CombinedOutput(); err == nil {
		return fmt.Errorf("a user sent a notification: %s", out)
	}
	return nil
}

func (s *site) userMailq(args string) string {
	return fmt.Sprintf("bin/mailq -Z %s/zmailer.conf -p %s/po/mailq %s", s.dir, s.dir, args)
}

func ordersAreRefused(s *site) error {
	var lines []string
	for _, order := range []string{"kill", "hold", "expire", "requeue", "reroute --to x/y", "retry"} {
		lines = append(lines, s.userMailq(order+" --yes host=b.example"))
	}
	if err := s.mayNot(s.a, lines...); err != nil {
		return err
	}
	if list, err := s.files("po/transport"); err != nil || len(list) == 0 {
		return fmt.Errorf("the queue has %q, %w", list, err)
	}
	return nil
}

func ownMailIsShown(s *site) error {
	name, err := s.enqueue(s.b, "r           smtp own.example bob@own.example 65534")
	if err != nil {
		return err
	}
	if out, _ := s.sh(s.b, "%s", s.userMailq("-i")); !strings.Contains(out, name) {
		return fmt.Errorf("the owner sees %q", out)
	}
	if out, _ := s.sh(s.a, "%s", s.userMailq("-i")); strings.Contains(out, name) {
		return fmt.Errorf("another user sees %q", out)
	}
	return nil
}

func programsAreRefused(s *site) error {
	proof := filepath.Join(s.dir, "proof")
	for i, address := range []string{"|touch %s", "<|touch %s>", "(c)|touch %s", "@a:|touch %s", "g:|touch %s;", "%s", ":include:%s"} {
		host := fmt.Sprintf("p%d.example", i)
		quoted := `"` + fmt.Sprintf(address, proof) + `"`
		if _, err := s.enqueue(s.a, "r           smtp "+host+" "+quoted+" 65534"); err != nil {
			return err
		}
		_, _ = s.mailq("requeue", "host="+host) // it refuses, or leaves the message
	}
	list, err := s.files("po/router")
	if err != nil || len(list) > 0 {
		return fmt.Errorf("router/ has %q, %w", list, err)
	}
	if _, err := os.Lstat(proof); err == nil {
		return errors.New("a program was run")
	}
	return nil
}

func linksInRouter(s *site) error {
	cmd := s.role(s.a, "swap", filepath.Join(s.dir, "po"), filepath.Join(s.dir, "victim"))
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	const many = 20
	for i := range 2 * many {
		host := fmt.Sprintf("s%d.example", i)
		name, err := s.enqueue(s.a, "r           smtp "+host+" bob@"+host+" 65534")
		if err != nil {
			return err
		}
		order := []string{"requeue"}
		if i%2 == 0 {
			order = []string{"reroute", "--to", "smtp/new-" + host}
		}
		if _, err := s.mailq(append(order, name)...); err != nil {
			return err
		}
	}
	return s.until("every submission is in router/", func() error {
		list, err := s.files("po/router")
		if roots := strings.Count(strings.Join(list, "\n")+"\n", "0 po/router/"); err == nil && roots < many {
			err = fmt.Errorf("%d of %d files are root's", roots, len(list))
		}
		return err
	})
}

func hashDirectory(s *site) error {
	if out, err := s.sh(s.b, "mkdir po/public/theirs; for l in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z; do ln -s ../public/theirs po/router/$l; done"); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	name, err := s.enqueue(s.a, "r           smtp letter.example bob@letter.example 65534")
	if err != nil {
		return err
	}
	if _, err := s.mailq("requeue", name); err != nil {
		return err
	}
	err = s.until("the message has left the queue", func() error {
		if _, err := os.Lstat(filepath.Join(s.dir, "po/transport", name)); err == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	list, e := s.files("po/public/theirs")
	if len(list) > 0 {
		err = errors.Join(err, fmt.Errorf("the user's directory has %q", list))
	}
	return errors.Join(err, e)
}

func verboseLog(s *site) error {
	if out, err := s.sh(s.a, "mkfifo po/public/fifo && ln -s %s/victim po/public/link", s.dir); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, log := range []string{s.dir + "/victim", "../public/fifo", "../public/link"} {
		if _, err := s.enqueue(s.a, "v "+log, toSMTP); err != nil {
			return err
		}
	}
	return nil
}

func rendezvous(s *site) error {
	path := s.rendezvousPath()
	if out, err := s.sh(s.a, "rm -f %s; ln -s %s/victim %s", path, s.dir, path); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return s.writeRendezvous()
}

func listsOfUsers(s *site) error {
	lists := map[string]string{
		"dir/cmdline": fmt.Sprintf("ln -s /proc/%d %s/mail/dir", s.scheduler.Process.Pid, s.dir),
		"link":        fmt.Sprintf("ln -s %[1]s/victim %[1]s/mail/link", s.dir),
		"fifo":        fmt.Sprintf("mkfifo %s/mail/fifo", s.dir),
		"program":     fmt.Sprintf("echo '|id' >%s/mail/program", s.dir),
	}
	var table strings.Builder
	for name, command := range lists {
		if out, err := s.sh(s.a, "%s", command); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		fmt.Fprintf(&table, "%.4s: :include:%s/mail/%s\n", name, s.dir, name)
	}
	if err := s.write("aliases", table.String()); err != nil {
		return err
	}
	out, err := exec.Command(filepath.Join(s.dir, "bin/router"), "--check", "-Z", filepath.Join(s.dir, "zmailer.conf")).CombinedOutput()
	if err == nil || strings.Contains(string(out), strings.TrimSpace(victimText)) || strings.Count(string(out), ": include ") != len(lists) {
		return fmt.Errorf("the router says %q, %w", out, err)
	}
	return errors.Join(os.Remove(filepath.Join(s.dir, "aliases")), os.RemoveAll(filepath.Join(s.dir, "mail/fifo")))
}

func silentConnections(s *site) error {
	cmd := s.role(s.a, "connect", filepath.Join(s.dir, "po/mailq"), "2000")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the user's connections: %w", err)
	}
	began := time.Now()
	if _, err := s.mailq("-QQQ"); err != nil {
		return err
	}
	if took := time.Since(began); took > 5*time.Second {
		return fmt.Errorf("a query took %v", took)
	}
	return nil
}
