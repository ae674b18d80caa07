package xfer

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
)

// TestFullDiskOfTheNodeIsTemporary: while the disk of the other node is full, or it cannot
// make files, its answers are temporary ones and the connection stays open. After that the
// mail arrives.
func TestFullDiskOfTheNodeIsTemporary(t *testing.T) {
	for what, faults := range map[string]memdisk.Faults{
		"no space for the message": {Space: 100},
		"no space":                 {Space: 1},
		"no new files":             {Probability: 1, Error: unix.ENOSPC},
		"read-only":                {Probability: 1, Error: unix.EROFS},
		"disk errors":              {Probability: 1, Error: unix.EIO},
	} {
		target := filepath.Join(t.TempDir(), "target")
		disk := memdisk.New(target, os.Geteuid(), rand.New(rand.NewPCG(1, 2)))
		unmount := postoffice.Mount(target, disk)
		p := newPair(t, t.TempDir(), target)
		p.submit(2)
		p.submit(1)
		stop, err := p.serve()
		check(t, err)
		if faults.Space > 0 {
			faults.Space += disk.Used()
		}
		disk.SetFaults(faults)
		said := p.run()
		if strings.Count(said, "deferred node mx2 answers 45") != 3 || strings.Contains(said, "answers 550") || strings.Contains(said, "connection") {
			t.Errorf("%s: the agent says\n%s", what, said)
		}
		disk.SetFaults(memdisk.Faults{})
		if said := p.run(); strings.Count(said, "\tok3 moved to mx2") != 3 {
			t.Errorf("%s: after that, the agent says\n%s", what, said)
		}
		stop()
		p.arrivedOnce(what)
		unmount()
	}
}

// arrivedOnce checks that each recipient is at the target once.
func (p *pair) arrivedOnce(what string) {
	p.t.Helper()
	copies := p.copies()
	for _, user := range p.users {
		if copies[user] != 1 {
			p.t.Errorf("%s: %s is in the queue %d times", what, user, copies[user])
		}
	}
}

// TestMailOfANodeWaitsForItsDirectory: mail that was taken, and whose message is out of sight at the start,
// is put into the queue when the message is back, without another push and however late.
func TestMailOfANodeWaitsForItsDirectory(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(1)
	stop, err := p.serve()
	check(t, err)
	p.run()
	stop()
	// A crash before the control file got its name, eight days ago.
	transport, queued := filepath.Join(p.target, "transport"), filepath.Join(p.target, "queue")
	control := controlFiles(transport, "")[0]
	info, err := os.Stat(filepath.Join(queued, control))
	check(t, err)
	n, _ := ctlfile.Number(filepath.Base(control))
	check(t, os.Rename(filepath.Join(transport, control), filepath.Join(transport, ".xfer", ctlfile.SpoolID(n, info.ModTime()))))
	record := filepath.Join(transport, ".xfer/taken")
	text, err := os.ReadFile(record)
	check(t, err)
	at := strconv.FormatInt(time.Now().Add(-8*24*time.Hour).Unix(), 10)
	check(t, os.WriteFile(record, regexp.MustCompile(`(?m)^\d+`).ReplaceAll(text, []byte(at)), 0o600))
	dir := filepath.Join(queued, filepath.Dir(control))
	check(t, os.Rename(dir, dir+".away"))
	stop, err = p.serve()
	check(t, err)
	defer stop()
	check(t, os.Rename(dir+".away", dir))
	for deadline := time.Now().Add(10 * time.Second); len(controlFiles(transport, "")) == 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	p.arrivedOnce("in the end")
}

// TestDirectoriesThatVanishAreMadeAgain: the receiver goes on when somebody has removed its
// directories, and takes none of the recipients again that it had taken before.
func TestDirectoriesThatVanishAreMadeAgain(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(2)
	stop, err := p.serve()
	check(t, err)
	defer stop()
	before := map[string]string{}
	for _, path := range controlFiles(filepath.Join(p.source, "transport"), "") {
		text, err := os.ReadFile(filepath.Join(p.source, "transport", path))
		check(t, err)
		before[path] = string(text)
	}
	if said := p.run(); strings.Count(said, "\tok3 moved to mx2") != 2 {
		t.Fatalf("the agent says\n%s", said)
	}
	for _, remove := range []string{"transport/.xfer", "queue/.tmp", "transport"} {
		if remove == "transport" { // the hash directories: those of the mail that has arrived stay
			moved := map[string]bool{".": true}
			for _, path := range controlFiles(filepath.Join(p.target, "transport"), "") {
				if dir := filepath.Dir(path); !moved[dir] {
					moved[dir] = true
					check(t, os.Rename(filepath.Join(p.target, "transport", dir), filepath.Join(p.target, "moved-"+dir)))
				}
			}
		} else {
			check(t, os.RemoveAll(filepath.Join(p.target, remove)))
		}
		users := len(p.users)
		p.submit(1)
		said := p.run()
		if strings.Contains(said, "deferred") {
			said = p.run() // what failed is put right before the next batch
		}
		if copies := p.copies(); copies[p.users[users]] != 1 {
			t.Errorf("%s was removed: %v in the queue\n%s", remove, copies, said)
		}
	}
	// The first push again, as if its answer had been lost.
	for path, text := range before {
		check(t, os.WriteFile(filepath.Join(p.source, "transport", path), []byte(text), 0o660))
	}
	n := len(controlFiles(filepath.Join(p.target, "transport"), ""))
	if said := p.run(); strings.Count(said, "\tok3 moved to mx2") != 2 {
		t.Errorf("the agent says\n%s", said)
	}
	if again := len(controlFiles(filepath.Join(p.target, "transport"), "")); again != n {
		t.Errorf("%d messages were taken twice", again-n)
	}
}
