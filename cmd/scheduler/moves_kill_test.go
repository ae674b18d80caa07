package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zsched/ctlfile"
)

// movingNodes are two nodes, whose programs are killed while mail moves from the first to the
// second.
type movingNodes struct {
	t   *testing.T
	dir string
}

func newMovingNodes(t *testing.T) *movingNodes {
	n := &movingNodes{t: t, dir: t.TempDir()}
	for _, dir := range []string{"bin/ta", "po/transport", "po/queue", "po/router", "po2/transport", "po2/queue", "log"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"player": program(t, "player"), "xfer": program(t, "xfer")} {
		if err := os.Symlink(target, filepath.Join(n.dir, "bin/ta", name)); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(n.dir, "nodes"), fmt.Sprintf("mx1 UNIX:%[1]s/po/xfer\nmx2 UNIX:%[1]s/po2/xfer\n", n.dir))
	for i, po := range []string{"po", "po2"} {
		writeFile(t, filepath.Join(n.dir, po+".zc"), fmt.Sprintf("POSTOFFICE=%[1]s/%[2]s\nMAILBIN=%[1]s/bin\nLOGDIR=%[1]s/log\nMAILSHARE=%[1]s\n", n.dir, po))
		writeFile(t, filepath.Join(n.dir, po+".cf"), fmt.Sprintf("PARAMmailqpath=UNIX:%[1]s/%[2]s/mailq\nPARAMnode=mx%[3]d\nPARAMxfer-nodes=%[1]s/nodes\n"+
			"*/*\texpiry=3d overfeed=0 interval=1h\nsmtp/*\tcommand=\"player -c $channel defer\"\n"+
			"xfer/*\tsessions=20 maxthr=20 maxring=20 maxchannel=20 interval=1s retries=\"1\"\n\tcommand=\"xfer --sessions ${sessions}\"\n", n.dir, po, i+1))
	}
	return n
}

// start starts a program, in a process group of its own.
func (n *movingNodes) start(name string, args ...string) *exec.Cmd {
	n.t.Helper()
	cmd := exec.Command(program(n.t, name), args...)
	cmd.Dir, cmd.SysProcAttr = n.dir, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	return cmd
}

// kill ends a program and its children.
func kill(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	_ = cmd.Wait()
}

// recipients counts the open recipients in a postoffice.
func (n *movingNodes) recipients(po string) map[string]int {
	n.t.Helper()
	found := map[string]int{}
	err := filepath.WalkDir(filepath.Join(n.dir, po, "transport"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if _, ok := ctlfile.Number(d.Name()); !ok {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil // it has just gone
		}
		f, err := ctlfile.Parse(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i := range f.Recipients {
			if !f.Done(i) {
				found[f.MessageID]++
			}
		}
		return nil
	})
	if err != nil {
		n.t.Error(err)
	}
	return found
}

// TestMovesSurviveKills: the scheduler with its agents, and the program that takes the mail, are
// killed at random times while mail is moved. At the end each recipient has arrived once.
func TestMovesSurviveKills(t *testing.T) {
	t.Parallel()
	const messages, kills = 300, 3
	n := newMovingNodes(t)
	fill(t, filepath.Join(n.dir, "po"), messages, 5)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	var sched, xferd *exec.Cmd
	move := func() *exec.Cmd {
		return n.start("mailq", "-p", filepath.Join(n.dir, "po/mailq"), "move", "--to", "mx2", "channel=*", "--yes")
	}
	for i := range kills {
		if sched == nil {
			sched = n.start("scheduler", "-i", "-M", "2", "-Z", "po.zc", "-f", "po.cf", "-L", "log/one")
		}
		if xferd == nil {
			xferd = n.start("xferd", "-Z", "po2.zc", "-f", "po2.cf")
		}
		until := time.Now().Add(time.Duration(50+chance.IntN(700)) * time.Millisecond)
		for time.Now().Before(until) {
			order := move()
			time.Sleep(time.Duration(20+chance.IntN(200)) * time.Millisecond)
			kill(order)
		}
		if i%3 != 1 {
			kill(sched)
			sched = nil
		}
		if i%3 != 0 {
			kill(xferd)
			xferd = nil
		}
	}
	if sched == nil {
		sched = n.start("scheduler", "-i", "-M", "2", "-Z", "po.zc", "-f", "po.cf", "-L", "log/one")
	}
	if xferd == nil {
		xferd = n.start("xferd", "-Z", "po2.zc", "-f", "po2.cf")
	}
	defer kill(sched)
	defer kill(xferd)
	t.Logf("%d have arrived after %d kills", len(n.recipients("po2")), kills)
	for deadline := time.Now().Add(2 * time.Minute); len(n.recipients("po")) > 0 && time.Now().Before(deadline); {
		order := move()
		time.Sleep(3 * time.Second)
		kill(order)
	}
	if left := n.recipients("po"); len(left) > 0 {
		t.Errorf("%d messages are left", len(left))
	}
	arrived := n.recipients("po2")
	for id, times := range arrived {
		if times != 1 {
			t.Errorf("%s has arrived %d times", id, times)
		}
	}
	if len(arrived) != messages {
		t.Errorf("%d of %d messages have arrived", len(arrived), messages)
	}
}
