package main

// The site: a postoffice, its scheduler, and two users who attack it.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// site is a postoffice with a root scheduler, two users, and a file of root that
// no attack may change.
type site struct {
	ctx       context.Context
	dir       string
	a, b      account
	scheduler *exec.Cmd
	slowPort  int // of slowServers
	log       bytes.Buffer
}

const victimText = "root's own\n"

// configuration keeps mail for smtp in the queue, delivers mail for local, and sends that for slow as
// scheduler.cf.example does for smtp.
const configuration = `PARAMmailqpath=UNIX:%[1]s/po/mailq
PARAMauthfile=%[1]s/scheduler.auth
*/*	expiry=1h interval=1s retries=1 user=root group=root jitter=0
smtp/*	interval=1h command="discard -c $channel --deferall 100"
local/*	maxthr=4 sessions=8 command="mailbox -c $channel -d %[1]s/mail --lock-wait 1s --sessions ${sessions}"
slow/*	maxchannel=400 maxring=400 maxthr=10 initialconcurrency=3 sessions=20 msgsessions=20 msgscale=10 sharescale=3
	command="smtp -c $channel -x -X -p %[2]d --sessions ${sessions}"
`

func newSite(ctx context.Context) (s *site, err error) {
	s = &site{ctx: ctx}
	if s.dir, err = os.MkdirTemp("", "attack-*"); err != nil {
		return s, err
	}
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return s, err
	}
	s.slowPort = l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	id := strconv.Itoa(os.Getpid())
	if s.a, err = newAccount("attack-a" + id); err != nil {
		return s, err
	}
	if s.b, err = newAccount("attack-b" + id); err != nil {
		return s, err
	}
	zenv := fmt.Sprintf("POSTOFFICE=%[1]s/po\nMAILBIN=%[1]s/bin\nMAILSHARE=%[1]s\nLOGDIR=%[1]s\nROUTERDIRHASH=1\n", s.dir)
	errs := []error{os.Chmod(s.dir, 0o755), s.write("zmailer.conf", zenv),
		s.write("scheduler.cf", fmt.Sprintf(configuration, s.dir, s.slowPort)), s.write("victim", victimText),
		s.write("scheduler.auth", "nobody:nobody:SNMP QQ TT ETRN:\n"), os.Chmod(s.dir+"/scheduler.auth", 0o600)}
	for name, mode := range map[string]os.FileMode{
		"po": 0o755, "po/transport": 0o755, "po/queue": 0o755, "po/postman": 0o755,
		"po/hold/transport": 0o777 | os.ModeSticky, "po/hold/queue": 0o777 | os.ModeSticky,
		"po/public": 0o777 | os.ModeSticky, "po/router": 0o777 | os.ModeSticky, "mail": 0o777 | os.ModeSticky,
	} {
		path := filepath.Join(s.dir, name)
		errs = append(errs, os.MkdirAll(path, 0o755), os.Chmod(path, mode))
	}
	errs = append(errs, s.plant())
	// The users may not be able to reach the folder that the programs are in.
	out, err := exec.Command("cp", "-r", "bin", s.dir).CombinedOutput()
	if err != nil {
		errs = append(errs, fmt.Errorf("cp: %w: %s", err, out))
	}
	errs = append(errs, os.Chmod(filepath.Join(s.dir, "victim"), 0o600))
	if err := errors.Join(errs...); err != nil {
		return s, err
	}
	return s, s.start()
}

func (s *site) write(name, text string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644)
}

// planted is the number of a message that a user has written into hold/ before the
// scheduler was started.
const planted = "4711"

func (s *site) plant() error {
	out, err := s.sh(s.a, "printf 'Subject: x\\n\\nbody\\n' >po/hold/queue/%[1]s && printf '%%s\\n' 'i %[1]s' 'o 12' 'l <p@x>' 'e a@x' "+
		"'s local a@x a@x 0' 'r           local - \"|touch %[2]s/planted\" 0' m 'Subject: x' '' >po/hold/transport/%[1]s", planted, s.dir)
	if err != nil {
		err = fmt.Errorf("writing into hold/: %w: %s", err, out)
	}
	return err
}

func (s *site) start() error {
	s.scheduler = exec.CommandContext(s.ctx, filepath.Join(s.dir, "bin/scheduler"), "-i", "-M", "2",
		"-Z", filepath.Join(s.dir, "zmailer.conf"), "-q", s.rendezvousPath())
	s.scheduler.Stdout, s.scheduler.Stderr = &s.log, &s.log
	s.scheduler.Dir = s.dir
	if err := s.scheduler.Start(); err != nil {
		return err
	}
	return s.until("the scheduler answers", func() error { _, err := s.mailq("-QQQ"); return err })
}

func (s *site) rendezvousPath() string { return filepath.Join(s.dir, "po/public/rendezvous") }

// writeRendezvous has the scheduler write the rendezvous file, and waits until it is a file.
func (s *site) writeRendezvous() error {
	if err := s.scheduler.Process.Signal(syscall.SIGUSR2); err != nil {
		return err
	}
	return s.until("the rendezvous file is a file", func() error {
		if info, err := os.Lstat(s.rendezvousPath()); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("it is %v, %w", info, err)
		}
		return nil
	})
}

// stop stops the scheduler.
func (s *site) stop() error {
	if s.scheduler == nil {
		return nil
	}
	defer func() { s.scheduler = nil }()
	_ = s.scheduler.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = s.scheduler.Process.Kill() })
	defer timer.Stop()
	return s.scheduler.Wait()
}

func (s *site) remove() {
	if err := s.stop(); err != nil && s.ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "%s\n", bytes.TrimSpace(s.log.Bytes()))
	}
	s.a.remove()
	s.b.remove()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// mailq runs mailq as root.
func (s *site) mailq(args ...string) (string, error) {
	args = append([]string{"-Z", s.dir + "/zmailer.conf", "-p", s.dir + "/po/mailq"}, args...)
	out, err := exec.CommandContext(s.ctx, s.dir+"/bin/mailq", args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("mailq %q: %w: %s", args[4:], err, out)
	}
	return string(out), err
}

// until waits until f has no error, for ten seconds at most.
func (s *site) until(what string, f func() error) error {
	var err error
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && s.ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("waited ten seconds until %s: %w", what, err)
}

// victimIsUnchanged reports what an attack has done to the file of root.
func (s *site) victimIsUnchanged() error {
	path := filepath.Join(s.dir, "victim")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return err
	}
	if string(text) != victimText || st.Uid != 0 || st.Mode&0o7777 != 0o600 {
		return fmt.Errorf("root's file was changed: %q, owner %d, mode %#o", text, st.Uid, st.Mode&0o7777)
	}
	return nil
}

// submit puts a message of a user into the queue, as a router does. The lines
// are those before the headers. ZMailer's router makes the sender the owner of the
// control file; submit does so if zmailer is set. open is the open control file.
func (s *site) submit(from account, zmailer bool, lines ...string) (name string, open *os.File, err error) {
	message, err := os.CreateTemp(filepath.Join(s.dir, "po/queue"), ".new-*")
	if err != nil {
		return "", nil, err
	}
	defer message.Close()
	_, err = message.WriteString("Subject: x\n\nbody\n")
	var st syscall.Stat_t
	err = errors.Join(err, message.Chown(int(from.uid), int(from.uid)), syscall.Fstat(int(message.Fd()), &st))
	name = strconv.FormatUint(st.Ino, 10)
	temp := filepath.Join(s.dir, "po/transport/."+name)
	text := "i " + name + "\no 12\nl <" + name + "@x.example>\ne a@x\ns local a@x a@x 0\n" +
		strings.Join(lines, "\n") + "\nm\nSubject: x\n\n"
	err = errors.Join(err, os.WriteFile(temp, []byte(text), 0o660))
	if err == nil && zmailer {
		err = errors.Join(os.Chown(temp, int(from.uid), 0), os.Chmod(temp, 0o660))
	}
	if err == nil {
		open, err = os.OpenFile(temp, os.O_RDWR, 0)
	}
	if err != nil {
		return "", nil, err
	}
	return name, open, errors.Join(os.Rename(message.Name(), filepath.Join(s.dir, "po/queue", name)),
		os.Rename(temp, filepath.Join(s.dir, "po/transport", name)))
}

// put submits a message as submit does, and closes its control file.
func (s *site) put(from account, lines ...string) (name string, err error) {
	name, open, err := s.submit(from, false, lines...)
	if err != nil {
		return "", err
	}
	return name, open.Close()
}

// enqueue submits a message and waits until the scheduler has it.
func (s *site) enqueue(from account, lines ...string) (name string, err error) {
	if name, err = s.put(from, lines...); err != nil {
		return "", err
	}
	return name, s.queued(name)
}

// queued waits until the scheduler has a message.
func (s *site) queued(name string) error {
	return s.until("message "+name+" is in the queue", func() error {
		out, err := s.mailq("list", "--json")
		if err == nil && !strings.Contains(out, `"message":`+name+`,`) {
			err = errors.New("it is not listed")
		}
		return err
	})
}

// tried waits until an agent has tried a message. It waits then, or it was refused and is
// gone.
func (s *site) tried(name string) error {
	return s.until("message "+name+" is tried or refused", func() error {
		out, err := s.mailq("list", "--json")
		if err == nil && strings.Contains(out, `"message":`+name+`,`) && !strings.Contains(out, `"attempts":1`) {
			err = errors.New("not yet")
		}
		return err
	})
}

// files lists the regular files below a directory with their owners.
func (s *site) files(dir string) (list []string, err error) {
	err = filepath.WalkDir(filepath.Join(s.dir, dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			list = append(list, fmt.Sprintf("%d %s", info.Sys().(*syscall.Stat_t).Uid, path[len(s.dir)+1:]))
		}
		return err
	})
	return list, err
}
