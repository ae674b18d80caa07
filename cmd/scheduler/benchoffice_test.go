package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What benchmarks of the whole program need: postoffices, mail and running programs.

// bench is a directory of programs and postoffices: the scheduler and, in ta, its agents.
type bench struct{ dir, scheduler string }

// newBench is a bench with the built programs.
func newBench(b testing.TB) *bench {
	return linkBench(b, program(b, "scheduler"), map[string]string{
		"discard": program(b, "discard"), "smtp": program(b, "smtp"), "oldagent": program(b, "oldagent"), "stamper": testBinary(b),
	})
}

// testBinary is the path of this program, which plays the scheduler and agents.
func testBinary(b testing.TB) string {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		b.Fatal(err)
	}
	return self
}

// linkBench makes a bench of links to programs; agents maps names to them.
func linkBench(b testing.TB, scheduler string, agents map[string]string) *bench {
	f := &bench{dir: b.TempDir()}
	f.scheduler = filepath.Join(f.dir, "scheduler")
	err := os.Mkdir(filepath.Join(f.dir, "ta"), 0o755)
	if err == nil {
		err = os.Symlink(scheduler, f.scheduler)
	}
	for name, agent := range agents {
		if err == nil {
			err = os.Symlink(agent, filepath.Join(f.dir, "ta", name))
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func runProgram(b testing.TB, name string, args ...string) string {
	b.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// postoffice makes an empty one.
func (f *bench) postoffice(b testing.TB) string {
	po, err := os.MkdirTemp(f.dir, "po")
	if err != nil {
		b.Fatal(err)
	}
	for _, dir := range []string{"transport", "queue", "router", "public", "postman"} {
		if err := os.Mkdir(filepath.Join(po, dir), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	return po
}

func (f *bench) write(b testing.TB, po, clauses string) {
	head := "PARAMmailqpath=UNIX:" + po + "/mailq\n*/*\texpiry=3d interval=1m user=" + strconv.Itoa(os.Getuid()) + " group=" + strconv.Itoa(os.Getgid()) + "\n"
	for name, text := range map[string]string{
		"zmailer.conf": "POSTOFFICE=" + po + "\nMAILBIN=" + f.dir + "\nMAILSHARE=" + po + "\nLOGDIR=" + po + "\n",
		"scheduler.cf": head + clauses,
	} {
		// A scheduler that reads it meanwhile reads all of it.
		path := filepath.Join(po, name)
		err := os.WriteFile(path+".new", []byte(text), 0o644)
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func (f *bench) floor(b testing.TB, po string, messages int) time.Duration {
	begun := time.Now()
	out := runProgram(b, program(b, "floor"), po)
	took := time.Since(begun)
	if strings.TrimSpace(out) != strconv.Itoa(messages) {
		b.Fatalf("the floor found %q messages of %d", out, messages)
	}
	os.RemoveAll(po)
	return took
}

// drain ends, as the floor does, with the last unlink: the directories say when
// that was, to a tick of the system's clock.
func (f *bench) drain(b testing.TB, po string) time.Duration {
	transport, queue := filepath.Join(po, "transport"), filepath.Join(po, "queue")
	begun := time.Now()
	sched := f.start(b, po)
	waitEmpty(b, transport, queue)
	took := max(changed(b, transport).Sub(begun), changed(b, queue).Sub(begun))
	sched.stop(b)
	os.RemoveAll(po)
	return took
}

func changed(b testing.TB, dir string) time.Time {
	info, err := os.Stat(dir)
	if err != nil {
		b.Fatal(err)
	}
	return info.ModTime()
}

type running struct {
	cmd *exec.Cmd
	log string
}

// start starts a scheduler in a process group of its own, whose agents can be
// killed with it.
func (f *bench) start(b testing.TB, po string, options ...string) *running {
	r := &running{log: filepath.Join(po, "log")}
	r.cmd = exec.Command(f.scheduler, append([]string{"-i", "-Z", filepath.Join(po, "zmailer.conf"), "-L", r.log}, options...)...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.cmd.Process.Kill() })
	return r
}

func (r *running) stop(b testing.TB) {
	// Before that it does not know of signals.
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if log, _ := os.ReadFile(r.log); bytes.Contains(log, fmt.Appendf(nil, `"pid":%d,"version"`, r.cmd.Process.Pid)) {
			break
		}
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	if err := r.cmd.Wait(); err != nil {
		log, _ := os.ReadFile(r.log)
		b.Fatalf("scheduler: %v\n%s", err, log)
	}
}

// stamp is an agent that writes down when each job line reached it. With
// "stay" it keeps the first one open until it is told to leave.
func stamp() {
	stamps, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		os.Exit(1)
	}
	fmt.Println("#hungry")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("#hungry") {
		at := time.Now()
		if in.Text() == "" {
			return
		}
		path, _, isJob := strings.Cut(in.Text(), "\t")
		if !isJob {
			continue
		}
		fmt.Fprintln(stamps, at.UnixNano())
		if len(os.Args) > 2 {
			in.Scan()
			return
		}
		data, _ := os.ReadFile(path)
		fmt.Printf("%s/%d\t\tok3 stamped\n", filepath.Base(path), bytes.Index(data, []byte("\nr "))+1)
	}
}

// waitEmpty waits until no file is left in the directories, looking at one
// page of each at a time.
func waitEmpty(b testing.TB, dirs ...string) {
	b.Helper()
	// Looking holds up who unlinks: not too often.
	const pause = 10 * time.Millisecond
	deadline := time.Now().Add(2 * time.Minute)
	for _, dir := range dirs {
		for !empty(dir) {
			if time.Now().After(deadline) {
				left, _ := filepath.Glob(filepath.Join(dir, "*"))
				log, _ := os.ReadFile(filepath.Join(dir, "..", "log"))
				b.Fatalf("%s has %d files left, as %q\n%s", dir, len(left), left[:min(3, len(left))], log)
			}
			time.Sleep(pause)
		}
	}
}

// empty reports whether no message is left: the scheduler has a directory of its
// own for temporary files beside them.
func empty(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(2)
	return len(names) == 0 || len(names) == 1 && names[0] == ".tmp"
}

// fill writes messages numbered from 1, spread over so many hosts, and checks
// that all are there.
func fill(b testing.TB, po string, messages, hosts int) {
	for n := 1; n <= messages; n++ {
		control, message := letter(n, hosts)
		writeFile(b, filepath.Join(po, "queue", strconv.Itoa(n)), message)
		writeFile(b, filepath.Join(po, "transport", strconv.Itoa(n)), control)
	}
	entries, err := os.ReadDir(filepath.Join(po, "transport"))
	if err != nil || len(entries) != messages {
		b.Errorf("filled %d of %d: %v", len(entries), messages, err)
	}
}

// letter is a control file and its message file as a router writes them.
func letter(n, hosts int) (control, message string) {
	control = fmt.Sprintf("@ 0x00000007\ni %d\no 74\nl <%d@sender.example>\ne alice@sender.example\n"+
		"s local alice@sender.example alice@sender.example 0\nr           smtp h%d.example bob@h%d.example 65534\n"+
		"m\nReceived: from client.example by mx.example\nFrom: alice@sender.example\nSubject: a letter\n\n", n, n, n%hosts, n%hosts)
	return control, "Received: from client.example by mx.example\nFrom: alice@sender.example\n\n" + strings.Repeat("some words of a letter\n", 20)
}

// submitLetter does it as a router does, the control file visible last, and
// returns when that was about to happen: the watch may see it before a
// datagram can be sent.
func submitLetter(b testing.TB, po string, n, hosts int) time.Time {
	name := strconv.Itoa(n)
	control, message := letter(n, hosts)
	writeFile(b, filepath.Join(po, "queue", name), message)
	temp := filepath.Join(po, "transport", "."+name)
	writeFile(b, temp, control)
	at := time.Now()
	if err := os.Rename(temp, filepath.Join(po, "transport", name)); err != nil {
		b.Error(err)
	}
	return at
}

func writeFile(b testing.TB, name, text string) {
	if err := os.WriteFile(name, []byte(text), 0o660); err != nil {
		b.Error(err)
	}
}

func dialNotify(b testing.TB, path string) net.Conn {
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("unixgram", path)
		if err == nil {
			return conn
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func lastStamp(b testing.TB, file string) time.Time {
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	lines := strings.Fields(string(data))
	ns, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Unix(0, ns)
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
