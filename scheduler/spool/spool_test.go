package spool

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// TestMain lets the test binary play another process: one that holds a lock,
// a pid file, has no room left on its disk, may not write in a directory, or is
// killed.
func TestMain(m *testing.M) {
	switch os.Getenv("SPOOL_TEST_HELPER") {
	case "":
		os.Exit(m.Run())
	case "wait": // until our standard input ends
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
	case "full":
		helpFullDisk(os.Getenv("SPOOL_TEST_PATH"))
	case "unwritable":
		helpUnwritable(os.Getenv("SPOOL_TEST_PATH"))
	case "killed":
		helpKilled(os.Getenv("SPOOL_TEST_PATH"))
	}
}

// startHelper starts the test binary in one of its roles. The helper that waits does
// so in the directory path, which may be "". lines is what it says; it
// ends when stop is called, at the end of the test if not before.
func startHelper(t *testing.T, role, path string) (pid int, lines *bufio.Scanner, stop func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SPOOL_TEST_HELPER="+role, "SPOOL_TEST_PATH="+path)
	cmd.Stderr = os.Stderr
	if role == "wait" {
		cmd.Dir = path
	}
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			in.Close()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	return cmd.Process.Pid, bufio.NewScanner(out), stop
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenMakesThePlaces(t *testing.T) {
	o := newTestSpool(t).open(Options{})
	for _, dir := range []string{"hold", "corrupt"} {
		for _, sub := range []string{dir, dir + "/transport", dir + "/queue"} {
			st, err := os.Stat(filepath.Join(o.dir, sub))
			check(t, err)
			if st.Mode().Perm() != 0o750 {
				t.Errorf("%s has mode %v", sub, st.Mode())
			}
		}
	}
	o.close()
	o.open(Options{}) // and is content with what is there
}

func TestOpenWithoutQueueIsAnError(t *testing.T) {
	o := newTestSpool(t)
	check(t, os.Remove(filepath.Join(o.dir, "queue")))
	before := descriptors(t)
	if _, err := Open(Options{Postoffice: o.dir}); err == nil || !strings.Contains(err.Error(), "queue") {
		t.Fatalf("error %v", err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(list)
}

func TestCloseLeavesNothingBehind(t *testing.T) {
	newTestSpool(t).open(Options{}).close() // the runtime's own first
	before := descriptors(t)
	o := newTestSpool(t)
	for i := range 300 {
		name := fmt.Sprint(1000 + i)
		o.put(name, control(name, toBob))
	}
	o.open(Options{HashLevels: 2})
	// In the middle of everything: names found, being taken, results waiting.
	o.s.Load(<-o.s.Found())
	<-o.s.Results()
	o.close()
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if n := bytes.Count(stacks, []byte("zsched/scheduler/spool.(*")); n > 1 {
		t.Errorf("goroutines are left:\n%s", stacks)
	}
	if _, err := os.Lstat(filepath.Join(o.dir, ".scheduler.notify")); err == nil {
		t.Error("the notify socket is left")
	}
}

// Every message goes all the way, once, whatever comes in whatever order.
func TestMessagesGoThrough(t *testing.T) {
	o := newTestSpool(t)
	text := control("1000", toBob, toCarol)
	bob, carol := offset(t, text, "bob@b"), offset(t, text, "carol")
	put := func(name, dir string) {
		o.write("tmp/"+name, "message")
		o.mkdir("queue/" + dir)
		check(t, os.Rename(filepath.Join(o.dir, "tmp", name), filepath.Join(o.dir, "queue", dir, name)))
		o.write("tmp/"+name, control(name, toBob, toCarol))
		o.mkdir("transport/" + dir)
		check(t, os.Rename(filepath.Join(o.dir, "tmp", name), filepath.Join(o.dir, "transport", dir, name)))
	}
	const n = 600
	for i := range n / 2 {
		put(fmt.Sprint(1000+i), "")
	}
	o.open(Options{HashLevels: 2})
	written := make(chan bool)
	go func() {
		defer close(written)
		for i := n / 2; i < n; i++ {
			id := uint64(1000 + i)
			put(fmt.Sprint(id), ctlfile.HashDir(id, i%3))
		}
	}()
	known := map[uint64]string{} // path of what is under way
	taking := map[uint64]bool{}  // what Load has not answered yet
	left := n
	for left > 0 {
		select {
		case names := <-o.s.Found():
			var fresh []Name
			for _, name := range names {
				if known[name.ID] == "" && !taking[name.ID] {
					taking[name.ID] = true
					fresh = append(fresh, name)
				}
			}
			o.s.Load(fresh)
		case results := <-o.s.Results():
			for _, r := range results {
				switch r := r.(type) {
				case Loaded:
					if known[r.Name.ID] != "" || len(r.Recipients) != 2 {
						t.Fatalf("%+v", r)
					}
					known[r.Name.ID] = r.Name.Path
					delete(taking, r.Name.ID)
					o.s.Mark(r.Name.ID, r.Name.Path, []ctlfile.Mark{{Offset: bob, Tag: '+'}})
					o.s.Mark(r.Name.ID, r.Name.Path, []ctlfile.Mark{{Offset: carol, Tag: '-', Diagnose: r.Name.ID%8 == 0, Notary: "\x03\x01failed\x015.1.1"}})
					o.s.Reread(r.Name.ID, r.Name.Path, scheduler.Read{})
				case Answered:
					if r.Err != nil || r.Missing {
						t.Fatalf("%+v", r)
					}
					switch r.Action.(type) {
					case scheduler.Read:
						if len(r.Recipients) != 2 || r.Recipients[0].Tag != '+' || r.Recipients[1].Tag != '-' {
							t.Fatalf("%+v", r)
						}
						o.s.Sweep()
						o.s.Finish(scheduler.Finish{Op: r.Op, Path: known[uint64(r.Op)], Owes: r.Owes})
					case *scheduler.Finish:
						delete(known, uint64(r.Op))
						left--
					}
				case Refused:
					delete(taking, r.Name.ID)
					if r.Why != Vanished && r.Why != Quarantined {
						t.Fatalf("%+v", r)
					}
				case Warning:
					t.Fatal(r.Text)
				}
			}
		}
	}
	<-written
	o.close()
	files := o.files()
	if len(files) != 3*n/8 {
		t.Errorf("files are left: %q", files)
	}
	for _, path := range files {
		if !strings.HasPrefix(path, "corrupt/") {
			t.Errorf("%s is left", path)
		}
	}
}

// restricted skips a test that needs permissions to be refused.
func restricted(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user: root may read and write everything")
	}
}
