package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// An attack with special files: FIFOs, sockets and devices wherever users can write, or
// could before the scheduler was started. Users cannot make devices, so root does.

// kind is a kind of special file.
type kind struct {
	name   string
	mode   uint32
	device uint64
}

var kinds = []kind{
	{"fifo", unix.S_IFIFO, 0},
	{"socket", unix.S_IFSOCK, 0},
	{"zero", unix.S_IFCHR, unix.Mkdev(1, 5)},      // endless when it is read
	{"terminal", unix.S_IFCHR, unix.Mkdev(4, 63)}, // a terminal of the machine
	{"block", unix.S_IFBLK, unix.Mkdev(7, 250)},   // a loop device
}

// forbidden is what nobody may do with it, as inotify events. A program may open a FIFO,
// which is harmless, to see what it is.
func (k kind) forbidden() uint32 {
	if k.mode == unix.S_IFIFO {
		return unix.IN_ACCESS | unix.IN_MODIFY
	}
	return unix.IN_OPEN | unix.IN_ACCESS | unix.IN_MODIFY
}

// numberOf is a number for the names of control files, messages and submissions. No inode
// has it, so no mail gets it.
func numberOf(k int) string { return fmt.Sprint(990000000000000000 + k) }

// specialFiles puts special files under the names of submissions, temporary files, logs,
// mailboxes and held messages, and in place of the rendezvous file. Mail and queries go on,
// and nobody reads or writes them.
func specialFiles(s *site) error {
	made, err := newSpecials(s)
	if err != nil {
		return err
	}
	defer made.close()
	router, err := s.startRouter()
	if err != nil {
		return err
	}
	err = errors.Join(specialLogs(s), specialHeld(s), specialMailboxes(s, made), specialRendezvous(s, made), routerGoesOn(s))
	err = errors.Join(err, router.stop(), made.untouched())
	if err != nil {
		err = fmt.Errorf("%w; the router says %.2000s", err, router.log())
	}
	return err
}

// specials are the special files that were made, with a watch for what nobody may do with
// them.
type specials struct {
	inotify int
	paths   map[int32]string // by watch
}

func newSpecials(s *site) (*specials, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	made := &specials{fd, map[int32]string{}}
	var errs []error
	long := time.Now().Add(-time.Hour) // a control file that is young waits for its message
	for i, k := range kinds {
		for _, name := range []string{
			"po/public/special-" + k.name, "po/public/.smtpserver-" + k.name, "po/public/" + numberOf(i),
			"po/router/" + numberOf(i), "po/router/.tmp-" + k.name,
			"po/hold/transport/" + numberOf(i), "po/hold/queue/" + numberOf(i),
			"po/hold/transport/" + numberOf(100+i), "po/hold/queue/" + numberOf(200+i),
		} {
			errs = append(errs, made.add(k, filepath.Join(s.dir, name)))
		}
		// The other half of a held message is a file.
		control := "po/hold/transport/" + numberOf(200+i)
		errs = append(errs, s.write("po/hold/queue/"+numberOf(100+i), "Subject: x\n\nbody\n"),
			s.write(control, "i "+numberOf(200+i)+"\no 12\nl <p@x>\ne a@x\ns local a@x a@x 0\n"+toSMTP+"\nm\nSubject: x\n\n"),
			os.Chtimes(filepath.Join(s.dir, control), long, long))
	}
	return made, errors.Join(errs...)
}

func (made *specials) add(k kind, path string) error {
	if err := unix.Mknod(path, k.mode|0o666, int(k.device)); err != nil {
		return fmt.Errorf("mknod %s: %w", path, err)
	}
	watch, err := unix.InotifyAddWatch(made.inotify, path, k.forbidden())
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	made.paths[int32(watch)] = path
	return err
}

func (made *specials) close() { _ = unix.Close(made.inotify) }

// untouched says what was read or written.
func (made *specials) untouched() (err error) {
	order := binary.NativeEndian
	buf := make([]byte, 4096)
	for {
		n, e := unix.Read(made.inotify, buf)
		if e != nil || n < unix.SizeofInotifyEvent {
			return err
		}
		for event := buf[:n]; len(event) >= unix.SizeofInotifyEvent; event = event[unix.SizeofInotifyEvent:] {
			watch, mask := int32(order.Uint32(event)), order.Uint32(event[4:])
			if mask&(unix.IN_OPEN|unix.IN_ACCESS|unix.IN_MODIFY) != 0 {
				err = errors.Join(err, fmt.Errorf("%s was opened, read or written (%#x)", made.paths[watch], mask))
			}
			event = event[order.Uint32(event[12:]):] // the name
		}
	}
}

// specialLogs submits messages whose verbose logs are not files.
func specialLogs(s *site) error {
	for _, k := range kinds {
		if _, err := s.enqueue(s.a, "v ../public/special-"+k.name, toSMTP); err != nil {
			return err
		}
	}
	return nil
}

// specialHeld releases held messages of which one file or both are special. A control file
// whose message is a special file goes to quarantine.
func specialHeld(s *site) error {
	var errs []error
	for i := range kinds {
		for _, n := range []string{numberOf(i), numberOf(100 + i)} {
			if out, err := s.mailq("release", n); err == nil {
				errs = append(errs, fmt.Errorf("mailq release %s says %q", n, out))
			}
		}
		n := numberOf(200 + i)
		if _, err := s.mailq("release", n); err != nil {
			continue
		}
		errs = append(errs, s.until(n+" is in quarantine", func() error {
			_, err := os.Lstat(filepath.Join(s.dir, "po/corrupt/transport", n))
			return err
		}))
	}
	return errors.Join(errs...)
}

// specialMailboxes delivers to a user whose mailbox is not a file.
func specialMailboxes(s *site, made *specials) error {
	box := filepath.Join(s.dir, "mail", s.b.name)
	for _, k := range kinds {
		if err := made.add(k, box); err != nil {
			return err
		}
		name, err := s.put(s.a, "r           local - "+s.b.name+" 0")
		if err != nil {
			return err
		}
		if err = s.tried(name); err != nil {
			err = fmt.Errorf("a %s as mailbox: %w", k.name, err)
		}
		_, _ = s.mailq("kill", name)
		if err = errors.Join(err, os.Remove(box)); err != nil {
			return err
		}
	}
	return nil
}

// specialRendezvous has the scheduler write the rendezvous file where something else is.
func specialRendezvous(s *site, made *specials) error {
	path := s.rendezvousPath()
	for _, k := range kinds {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := made.add(k, path); err != nil {
			return err
		}
		if err := s.writeRendezvous(); err != nil {
			return fmt.Errorf("in place of a %s: %w", k.name, err)
		}
	}
	return nil
}

// routed submits mail of a user for a host through router/, and waits until it is in the queue.
func (s *site) routed(from account, host string) error {
	if out, err := s.sh(from, "printf 'Subject: x\\n\\nbody\\n' | bin/sendmail -Z %s/zmailer.conf -i routed@%s", s.dir, host); err != nil {
		return fmt.Errorf("sendmail: %w: %s", err, out)
	}
	return s.until("the mail is in the queue", func() error {
		out, err := s.mailq("list", "--json", "host="+host)
		if err == nil && !strings.Contains(out, host) {
			err = errors.New("it is not listed")
		}
		return err
	})
}

// routerGoesOn submits mail through router/, which also has special files.
func routerGoesOn(s *site) error {
	err := s.routed(s.a, "special.example")
	if err != nil {
		return err
	}
	for i := range kinds {
		if _, e := os.Lstat(filepath.Join(s.dir, "po/router", numberOf(i))); e != nil {
			err = errors.Join(err, fmt.Errorf("what is no submission is not left alone: %w", e))
		}
	}
	return err
}

// crowdedRouter has the router run while a user has very many links in router/ and renames some
// of them all the time.
func crowdedRouter(s *site) error {
	crowd := s.role(s.a, "crowd", filepath.Join(s.dir, "po/router"))
	out, err := crowd.StdoutPipe()
	if err == nil {
		err = crowd.Start()
	}
	if err != nil {
		return err
	}
	defer func() {
		_, _ = crowd.Process.Kill(), crowd.Wait()
		_, _ = s.sh(s.a, "find po/router -type l -delete")
	}()
	if said, err := bufio.NewReader(out).ReadString('\n'); said != crowded {
		return fmt.Errorf("making the links: %q, %w", said, err)
	}
	router, err := s.startRouter()
	if err != nil {
		return err
	}
	err = s.routed(s.b, "crowded.example")
	err = errors.Join(err, s.until("the log says whose the links are", func() error {
		if text := router.log(); !strings.Contains(text, fmt.Sprintf(`"uid":%d,`, s.a.uid)) {
			return fmt.Errorf("it has %s", text)
		}
		return nil
	}))
	return errors.Join(err, router.stop())
}

// badFiles has the router run while a user fills router/ with files that are no messages.
func badFiles(s *site) error {
	err := s.routeBeside("litter")
	return errors.Join(err, os.RemoveAll(filepath.Join(s.dir, "po/corrupt/router")))
}

// manySubmissions has the router run while a user sends to very many recipients, many in each
// message.
func manySubmissions(s *site) error { return s.routeBeside("flood") }

// routeBeside has the router run, and routes mail of the other user, while the first one plays a
// role in router/.
func (s *site) routeBeside(role string) error {
	router, err := s.startRouter()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		out, err := s.role(s.a, role, filepath.Join(s.dir, "po/router")).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("making the files: %w: %s", err, out)
		}
		ended <- err
	}()
	slowest := time.Duration(0)
	for i, running := 0, true; err == nil && (running || i < 10); i++ {
		began := time.Now()
		err = s.routed(s.b, fmt.Sprintf("%s%d.example", role, i))
		slowest = max(slowest, time.Since(began))
		select {
		case e := <-ended:
			err, running = errors.Join(err, e), false
		case <-time.After(100 * time.Millisecond):
		}
	}
	fmt.Printf("      other mail took %v at most\n", slowest.Round(time.Millisecond))
	if slowest > honestTime {
		err = errors.Join(err, errors.New("that is too long"))
	}
	err = errors.Join(err, router.stop())
	return errors.Join(err, exec.Command("find", filepath.Join(s.dir, "po/router"), "-type", "f", "-user", s.a.name, "-delete").Run())
}

// router is a router that runs.
type router struct {
	cmd  *exec.Cmd
	path string // of its log
}

func (s *site) startRouter() (*router, error) {
	r := &router{path: filepath.Join(s.dir, "router.log")}
	log, err := os.Create(r.path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r.cmd = exec.CommandContext(s.ctx, filepath.Join(s.dir, "bin/router"), "-i", "-Z", filepath.Join(s.dir, "zmailer.conf"))
	r.cmd.Stdout, r.cmd.Stderr = log, log
	return r, r.cmd.Start()
}

// log is what it has said.
func (r *router) log() string {
	text, _ := os.ReadFile(r.path)
	return string(text)
}

func (r *router) stop() error {
	return errors.Join(r.cmd.Process.Signal(syscall.SIGTERM), r.cmd.Wait())
}
