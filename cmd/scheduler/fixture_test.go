package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

// What the real router wrote and what the real scheduler left behind are the
// spool's test data; here the whole program works them off.
const fixtures = "../../scheduler/spool/testdata"

// everything is a clause for each channel of the fixtures.
const everything = "{smtp,smtpdn,local,hold,error,crash,delay,fake}/* maxring=2 overfeed=10\n\tcommand=\"discard -c $channel --log %s\"\n"

// TestRouterFixtures: every message of the router is delivered once to each
// recipient and gone; a notice of success is written where one is owed.
func TestRouterFixtures(t *testing.T) {
	t.Parallel()
	for levels, dir := range map[int]string{0: "dirhash0", 2: "dirhash2"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			f := newBench(t)
			po := f.postoffice(t)
			log := filepath.Join(po, "deliveries")
			f.write(t, po, fmt.Sprintf(everything, log))
			f.setHash(t, po, levels)
			want := map[string]int{}
			var owing []string
			for path, ctl := range manifest(t, filepath.Join(fixtures, "router", dir)) {
				place(t, po, path, ctl, strings.TrimSuffix(ctl, ".ctl")+".msg")
				if expect(t, ctl, path, want) {
					owing = append(owing, path)
				}
			}
			sched := f.start(t, po)
			awaitNoFile(t, po, "transport")
			awaitNoFile(t, po, "queue")
			sched.stop(t)
			compareDeliveries(t, deliveries(t, log), want)
			if got := noticesAbout(t, po); !slices.Equal(got, sortedNames(owing)) {
				t.Errorf("notices are about %q, want %q", got, owing)
			}
		})
	}
}

// TestInFlightFixtures: control files taken in mid-flight, their pids dead by
// now or alive still. Every open recipient is delivered once, no marked one is
// touched, and what a live process has locked waits for it.
func TestInFlightFixtures(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(fixtures, "control-files", "*.ctl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	f := newBench(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			po := f.postoffice(t)
			log := filepath.Join(po, "deliveries")
			f.write(t, po, fmt.Sprintf(everything, log))
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := ctlfile.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			// No process of a test machine may have these pids by chance.
			data = regexp.MustCompile(`(?m)^r~ +\d+`).ReplaceAllFunc(data, func(lock []byte) []byte {
				return fmt.Appendf(nil, "r~%*d", len(lock)-2, deadPID(t))
			})
			name := parsed.Name
			ctl := filepath.Join(t.TempDir(), name)
			msg := ctl + ".msg"
			writeFile(t, ctl, string(data))
			writeFile(t, msg, strings.Repeat("a line of a letter\n", 30))
			place(t, po, name, ctl, msg)
			want := map[string]int{}
			for _, r := range parsed.Recipients {
				if r.Tag == ctlfile.Open || r.Tag == ctlfile.Locked {
					want[fmt.Sprintf("%s %d", name, r.Offset)] = 1
				}
			}
			sched := f.start(t, po)
			awaitNoFile(t, po, "transport")
			sched.stop(t)
			compareDeliveries(t, deliveries(t, log), want)
			checkMarked(t, po, parsed)
		})
	}
}

// checkMarked compares the recipients that were marked before with those that
// the notice names, if the message owed one.
func checkMarked(t *testing.T, po string, before *ctlfile.File) {
	about := noticesAbout(t, po)
	if len(before.Diagnostics) == 0 {
		return
	}
	if !slices.Equal(about, []string{before.Name}) {
		t.Errorf("notices are about %q", about)
		return
	}
	for _, file := range filesBelow(t, filepath.Join(po, "router")) {
		text, err := os.ReadFile(filepath.Join(po, "router", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range before.Recipients {
			if r.Tag == ctlfile.Failed && r.Notify.Wants(ctlfile.NotifyFailure) && !strings.Contains(string(text), "; "+r.User+"\nAction: failed\n") {
				t.Errorf("%s has failed, and the notice does not say so: %s", r.User, text)
			}
		}
	}
}

// noticesAbout returns the numbers of the messages that the notices in router/
// are about, sorted.
func noticesAbout(t *testing.T, po string) (names []string) {
	t.Helper()
	for _, file := range filesBelow(t, filepath.Join(po, "router")) {
		text, err := os.ReadFile(filepath.Join(po, "router", file))
		if err != nil {
			t.Fatal(err)
		}
		id := regexp.MustCompile(`(?m)^X-Spool-Id: S(\d+)`).FindSubmatch(text)
		if id == nil {
			t.Fatalf("router/%s is no notice: %s", file, text)
		}
		names = append(names, string(id[1]))
	}
	slices.Sort(names)
	return names
}

// sortedNames returns the base names of control files.
func sortedNames(paths []string) (names []string) {
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	slices.Sort(names)
	return names
}

// expect notes the recipients of a control file, which must be delivered, and
// reports whether one of them asks to hear of success.
func expect(t *testing.T, ctl, path string, want map[string]int) (owes bool) {
	data, err := os.ReadFile(ctl)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ctlfile.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Recipients {
		want[fmt.Sprintf("%s %d", path, r.Offset)] = 1
		owes = owes || r.Notify.Wants(ctlfile.NotifySuccess)
	}
	return owes
}

// manifest maps each control file's path below transport/ to its fixture.
func manifest(t *testing.T, dir string) map[string]string {
	data, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(data)) {
		ctl, rest, _ := strings.Cut(line, " ")
		_, path, _ := strings.Cut(rest, "transport path: transport/")
		path, _, _ = strings.Cut(path, " ")
		paths[path] = filepath.Join(dir, ctl)
	}
	return paths
}

// place puts a message where a router would have put it, message file first.
func place(t *testing.T, po, path, ctl, msg string) {
	for dir, from := range map[string]string{"queue": msg, "transport": ctl} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(po, dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, to, string(data))
	}
}

func (f *bench) setHash(t *testing.T, po string, levels int) {
	if levels == 0 {
		return
	}
	file := filepath.Join(po, "zmailer.conf")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, string(data)+"SCHEDULERDIRHASH="+strconv.Itoa(levels)+"\n")
}

func compareDeliveries(t *testing.T, got, want map[string]int) {
	t.Helper()
	for recipient, times := range got {
		if times != want[recipient] {
			t.Errorf("%s was delivered %d times, want %d", recipient, times, want[recipient])
		}
	}
	for recipient := range want {
		if got[recipient] == 0 {
			t.Errorf("%s was not delivered", recipient)
		}
	}
}

// awaitNoFile waits until no file is left in a tree of the postoffice.
func awaitNoFile(t *testing.T, po, dir string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		left := filesBelow(t, filepath.Join(po, dir))
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(po, "log"))
			t.Fatalf("%s still has %q\n%s", dir, left, log)
		}
	}
}

// filesBelow returns the paths of all files below a directory, in order.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name()[0] != '.' {
			below, _ := filepath.Rel(dir, path)
			files = append(files, below)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// deadPID is the pid of a process that was, and is no more.
func deadPID(t *testing.T) int {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
