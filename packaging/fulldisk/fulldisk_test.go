// Package fulldisk tests the built programs on a small disk that their own mail has filled.
package fulldisk

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/programs"
	"zsched/queue"
)

var whole = flag.Bool("whole", false, "all cases, not only bytes that are short and mail in the queue that all fails")

// fullDisk is a postoffice on a small file system of its own, with a router and a scheduler.
type fullDisk struct {
	*testing.T
	dir, po, user string
	failing       int // messages for which a notice has to come
}

func newFullDisk(t *testing.T, options string) *fullDisk {
	d := &fullDisk{T: t, dir: t.TempDir()}
	d.po = filepath.Join(d.dir, "po")
	me, err := user.Current()
	d.must(err)
	d.user = me.Username
	d.must(os.Mkdir(d.po, 0o755))
	if err := unix.Mount("tmpfs", d.po, "tmpfs", 0, options); err != nil {
		t.Skipf("only root may mount a small file system: %v", err)
	}
	t.Cleanup(func() { d.must(unix.Unmount(d.po, unix.MNT_DETACH)) })
	for _, name := range []string{"po/transport", "po/queue", "po/router", "po/public", "po/postman", "mail"} {
		d.must(os.MkdirAll(filepath.Join(d.dir, name), 0o755))
	}
	bin := filepath.Join(d.dir, "bin")
	d.must(programs.Put(bin, "scheduler", "router", "ta/discard", "ta/mailbox"))
	for name, text := range map[string]string{
		"zmailer.conf": fmt.Sprintf("POSTOFFICE=%[1]s/po\nMAILBIN=%[2]s\nMAILSHARE=%[1]s\nLOGDIR=%[1]s\nSYSLOGFLG=\n"+
			"ORGDOMAIN=here.example\nPATH=%[3]s\n", d.dir, bin, os.Getenv("PATH")),
		"routes":  "here.example local\nok.example ok\nbad.example bad\n",
		"aliases": "",
		"scheduler.cf": fmt.Sprintf(`PARAMmailqsock = "UNIX:%[1]s/mailq"
*/*
	expiry=1h interval=1s retries="1 1 2" maxthr=10 idlemax=10s user=root group=root
local/*
	command="%[2]s/mailbox -c $channel -d %[1]s/mail/%%u/"
ok/*
	command="%[2]s/discard -c $channel"
bad/*
	command="%[2]s/discard -c $channel --fail 100"
`, d.dir, bin),
	} {
		d.must(os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644))
	}
	return d
}

func (d *fullDisk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// start starts a program, whose log is outside of the small file system. The function that it
// returns ends it.
func (d *fullDisk) start(name string) (stop func()) {
	log, err := os.Create(filepath.Join(d.dir, name+".out"))
	d.must(err)
	cmd := exec.Command(filepath.Join(d.dir, "bin", name), "-i", "-Z", filepath.Join(d.dir, "zmailer.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	d.must(cmd.Start())
	d.Cleanup(func() { _ = cmd.Process.Kill(); _ = log.Close() })
	return func() {
		d.must(cmd.Process.Signal(syscall.SIGTERM))
		d.must(cmd.Wait())
	}
}

// log returns what a program has written.
func (d *fullDisk) log(name string) string {
	text, err := os.ReadFile(filepath.Join(d.dir, name+".out"))
	d.must(err)
	return string(text)
}

// recipient returns that of message n: every fourth is for the channel that delivers if good is set.
func (d *fullDisk) recipient(n int, good bool) ctlfile.Address {
	if good && n%4 == 0 {
		return ctlfile.Address{Channel: "ok", Host: "ok.example", User: "u@ok.example", Privilege: "0"}
	}
	d.failing++
	return ctlfile.Address{Channel: "bad", Host: "bad.example", User: "u@bad.example", Privilege: "0"}
}

// body is that of message n, with header.
func body(n int) string {
	return fmt.Sprintf("Subject: number %d\n\n", n) + strings.Repeat("some text of the message\n", n%7*50)
}

// submit fills the disk with submissions, as sendmail would, until that much is left free.
func (d *fullDisk) submit(good bool) {
	r := queue.Router{Postoffice: d.po}
	for n := 0; postoffice.ForArrivals.Check(d.po) == nil; n++ {
		s := queue.Submission{By: "test", From: ctlfile.Address{User: d.user + "@here.example"}}
		to := d.recipient(n, good)
		s.To = []*ctlfile.Recipient{{Address: ctlfile.Address{User: to.User}}}
		header, text, _ := strings.Cut(body(n), "\n\n")
		s.Header = header
		file, err := s.Write(d.po, "test-", strings.NewReader(text))
		d.must(err)
		_, err = r.Give(file)
		d.must(err)
	}
}

// queueAll fills the disk with mail in the queue, until nothing more fits.
func (d *fullDisk) queueAll(good bool) {
	sender := d.user + "@here.example"
	for n := 0; ; n++ {
		before := d.failing
		header, text, _ := strings.Cut(body(n), "\n\n")
		_, err := queue.Submit(d.po, 0, &ctlfile.Contents{Blocks: []ctlfile.HeaderBlock{{
			Envelopes: []ctlfile.Envelope{{
				Sender:     ctlfile.Address{Channel: "local", Host: sender, User: sender, Privilege: "0"},
				Recipients: []ctlfile.EnvelopeRecipient{{Address: d.recipient(n, good)}},
			}},
			Header: header + "\n",
		}}}, strings.NewReader(text))
		if errors.Is(err, unix.ENOSPC) {
			d.failing = before
			return
		}
		d.must(err)
	}
}

// number is in each message, and so in each notice.
var number = regexp.MustCompile(`Subject: number [0-9]+`)

// empty waits until no mail is left, and checks that each failing message has led to its notice.
func (d *fullDisk) empty() {
	d.Helper()
	began := time.Now()
	for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		left := 0
		for _, dir := range []string{"router", "transport", "queue"} {
			_ = filepath.WalkDir(filepath.Join(d.po, dir), func(_ string, e os.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					left++
				}
				return nil
			})
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			var st unix.Statfs_t
			d.must(unix.Statfs(d.po, &st))
			d.Fatalf("%d files are left, %d blocks and %d inodes free\n%.3000s\n%.3000s", left, st.Bavail, st.Ffree, d.log("scheduler"), d.log("router"))
		}
	}
	d.Logf("%d messages have failed, and all was done after %v", d.failing, time.Since(began))
	notices, err := filepath.Glob(filepath.Join(d.dir, "mail", d.user, "new", "*"))
	d.must(err)
	about := map[string]bool{}
	for _, name := range notices {
		text, err := os.ReadFile(name)
		d.must(err)
		if !strings.Contains(string(text), "Action: failed\n") {
			d.Errorf("not a notice of failure:\n%s", text)
		}
		about[number.FindString(string(text))] = true
	}
	if len(notices) != d.failing || len(about) != d.failing {
		d.Errorf("%d notices about %d messages came for %d failures", len(notices), len(about), d.failing)
	}
}

// A disk that its own mail has filled becomes empty without help: bytes or inodes are short, all
// of the mail fails or some is delivered, and it waits for the router or is in the queue.
func TestDiskThatMailHasFilledBecomesEmpty(t *testing.T) {
	for name, options := range map[string]string{"bytes": "size=24m", "inodes": "size=24m,nr_inodes=2000"} {
		for kind, good := range map[string]bool{"mixed": true, "all of it fails": false} {
			if !*whole && (good || name == "inodes") {
				continue
			}
			t.Run(name+", queued, "+kind, func(t *testing.T) { testQueued(newFullDisk(t, options), good) })
			if !*whole {
				continue
			}
			t.Run(name+", submitted, "+kind, func(t *testing.T) {
				d := newFullDisk(t, options)
				d.submit(good)
				d.start("scheduler")
				d.start("router")
				d.empty()
			})
		}
	}
}

func testQueued(d *fullDisk, good bool) {
	d.start("router")
	stop := d.start("scheduler") // makes the reserve
	for deadline := time.Now().Add(time.Minute); !strings.Contains(d.log("scheduler"), "Startup scan completed"); {
		if time.Now().After(deadline) {
			d.Fatal(d.log("scheduler"))
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	d.queueAll(good)
	d.start("scheduler")
	d.empty()
}
