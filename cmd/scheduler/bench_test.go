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
	"sync"
	"syscall"
	"testing"
	"time"

	"zsched/internal/peertest"
)

// The whole program against the floor, in one run: testdata/floor does to the
// files what nobody can avoid, in one process. Queues are filled in pairs, so
// that both sides find theirs at the same age: an ext4 queue that was just
// filled drains several times faster than one whose inodes were written back.

// drainClauses are ways to use agents. Pipelined ones have the next job
// line of a thread at hand when they are done with one; concurrent ones have a
// hundred open at once, of any threads, which is what serves a queue with a
// host for every message. With marking=scheduler the control file is not written,
// because each outcome ends its message.
var drainClauses = map[string]string{
	"pipelined":  "smtp/* maxring=3 maxthr=1 overfeed=100 quantum=100\n\tcommand=\"discard -c $channel\"\n",
	"unmarked":   "smtp/* maxring=3 maxthr=1 overfeed=100 quantum=100 marking=scheduler\n\tcommand=\"discard -c $channel --marking scheduler\"\n",
	"concurrent": "smtp/* maxring=100 maxthr=1 sessions=100\n\tcommand=\"discard -c $channel --sessions ${sessions}\"\n",
}

// BenchmarkDrain empties queues of fresh messages through discard. The floor's rate and the median ratio of
// three pairs stand beside the rate; the ratio is what counts.
func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct {
		messages, hosts, pairs int
		agents, age            string
	}{
		{40_000, 100, 3, "pipelined", "new"}, {40_000, 100, 3, "pipelined", "aged"},
		{40_000, 100, 3, "unmarked", "new"}, {40_000, 100, 3, "unmarked", "aged"},
		{100_000, 1000, 3, "pipelined", "new"}, {100_000, 1000, 1, "pipelined", "aged"},
		{40_000, 40_000, 3, "concurrent", "new"}, {40_000, 40_000, 3, "concurrent", "aged"},
		{40_000, 40_000, 3, "pipelined", "new"},
	} {
		b.Run(fmt.Sprintf("messages=%d/hosts=%d/%s/%s", c.messages, c.hosts, c.agents, c.age), func(b *testing.B) {
			f := newBench(b)
			var rates, floors, ratios []float64
			for b.Loop() {
				for pair := range c.pairs {
					floor, ours := f.pair(b, drainClauses[c.agents], pair, c.messages, c.hosts, c.age == "aged")
					rates = append(rates, float64(c.messages)/ours.Seconds())
					floors = append(floors, float64(c.messages)/floor.Seconds())
					ratios = append(ratios, floor.Seconds()/ours.Seconds())
				}
			}
			b.ReportMetric(0, "ns/op") // mostly the filling
			b.ReportMetric(median(rates), "msg/s")
			b.ReportMetric(median(floors), "floor/s")
			b.ReportMetric(median(ratios), "of-floor")
		})
	}
}

// pair fills two queues alike and drains one by the floor, one by us, in turn.
func (f *bench) pair(b *testing.B, clause string, n, messages, hosts int, aged bool) (floor, ours time.Duration) {
	first, second := f.postoffice(b), f.postoffice(b)
	var filling sync.WaitGroup
	for _, po := range []string{first, second} {
		f.write(b, po, clause)
		filling.Go(func() { fill(b, po, messages, hosts) })
	}
	filling.Wait()
	if aged {
		writeBack(b)
	}
	if n%2 == 0 {
		floor = f.floor(b, first, messages)
		return floor, f.drain(b, second)
	}
	ours = f.drain(b, first)
	return f.floor(b, second, messages), ours
}

// BenchmarkEventLog gives what the event log costs: the median ratio of the time
// to drain a queue with it to the time without, side by side.
func BenchmarkEventLog(b *testing.B) {
	const messages, hosts, pairs = 20_000, 100, 3
	f := newBench(b)
	var rates, ratios []float64
	for b.Loop() {
		for n := range pairs {
			without, with := f.postoffice(b), f.postoffice(b)
			f.write(b, without, drainClauses["pipelined"])
			f.write(b, with, "PARAMevent-log="+filepath.Join(with, "events")+"\n"+drainClauses["pipelined"])
			var filling sync.WaitGroup
			filling.Go(func() { fill(b, without, messages, hosts) })
			filling.Go(func() { fill(b, with, messages, hosts) })
			filling.Wait()
			took := [2]time.Duration{}
			for i, po := range [2]string{without, with} {
				if n%2 == 1 {
					i, po = 1-i, [2]string{with, without}[i]
				}
				took[i] = f.drain(b, po)
			}
			rates = append(rates, messages/took[1].Seconds())
			ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // mostly the filling
	b.ReportMetric(median(rates), "msg/s")
	b.ReportMetric(median(ratios), "of-without")
}

// BenchmarkClusterDrain gives what a cluster costs: the median ratio of the rates at
// which a queue drains with a limit of the cluster on every host, and without one,
// side by side. The time of the first epoch, in which nothing is granted, is not
// counted: another node has begun it.
func BenchmarkClusterDrain(b *testing.B) {
	const messages, hosts, pairs = 20_000, 100, 3
	f := newBench(b)
	store := peertest.FindRedis(b)
	if store == nil {
		b.Skip("no redis-server: make peers gets one")
	}
	store.Start()
	limited := strings.Replace(drainClauses["pipelined"], "maxthr=1", "maxthr=1 clustermax=3", 1)
	cluster := "PARAMcluster=\"redis://" + store.Addr() + "/0?ttl=3s\"\n"
	first := f.postoffice(b)
	f.write(b, first, cluster+limited)
	f.start(b, first).stop(b)
	time.Sleep(4 * time.Second) // the first epoch
	var ratios, rates, work []float64
	for b.Loop() {
		for n := range pairs {
			took, used := [2]time.Duration{}, [2]time.Duration{}
			for i := range 2 {
				i = (i + n) % 2
				po := f.postoffice(b)
				f.write(b, po, []string{drainClauses["pipelined"], cluster + limited}[i])
				fill(b, po, messages, hosts)
				before := childrenTime(b)
				took[i] = f.drain(b, po)
				used[i] = childrenTime(b) - before
			}
			rates = append(rates, messages/took[1].Seconds())
			ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
			work = append(work, used[0].Seconds()/used[1].Seconds())
		}
	}
	b.ReportMetric(0, "ns/op") // mostly the filling
	b.ReportMetric(median(rates), "msg/s")
	b.ReportMetric(median(ratios), "of-without")
	b.ReportMetric(median(work), "cpu-of-without")
}

// childrenTime returns the processor time of all children that have ended, with their
// own children: other work on the machine changes it less than it changes rates.
func childrenTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// writeBack has the file system write the inodes back, as it does by itself within
// half a minute.
func writeBack(b testing.TB) {
	syscall.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0); err != nil {
		b.Log("page cache not dropped: ", err)
	}
}

// BenchmarkNotified gives the time from the moment a router shows a control
// file, and says so by datagram, until the waiting agent has the job line in
// its hand.
func BenchmarkNotified(b *testing.B) {
	f := newBench(b)
	po := f.postoffice(b)
	stamps := filepath.Join(po, "stamps")
	f.write(b, po, "smtp/* marking=scheduler overfeed=0 command=\"stamper "+stamps+"\"\n")
	sched := f.start(b, po)
	defer sched.stop(b)
	conn := dialNotify(b, filepath.Join(po, ".scheduler.notify"))
	defer conn.Close()
	send := func(n int) time.Time {
		at := submitLetter(b, po, n, 1)
		if _, err := fmt.Fprintf(conn, "NEW %d", n); err != nil {
			b.Fatal(err)
		}
		waitEmpty(b, filepath.Join(po, "transport"), filepath.Join(po, "queue"))
		return at
	}
	send(1) // starts the agent
	var waits []float64
	n := 1
	for b.Loop() {
		n++
		sent := send(n)
		fed := lastStamp(b, stamps)
		waits = append(waits, float64(fed.Sub(sent).Nanoseconds())/1e6)
	}
	slices.Sort(waits)
	b.ReportMetric(waits[len(waits)/2], "p50-ms")
	b.ReportMetric(waits[len(waits)*99/100], "p99-ms")
}

// BenchmarkFirstFeed gives the time from the start of the daemon until its
// first agent has a job line, with 100 000 control files waiting.
func BenchmarkFirstFeed(b *testing.B) {
	f := newBench(b)
	po := f.postoffice(b)
	stamps := filepath.Join(po, "stamps")
	f.write(b, po, "smtp/* marking=scheduler overfeed=0 maxring=1 command=\"stamper "+stamps+" stay\"\n")
	fill(b, po, 100_000, 1000)
	var waits []float64
	for b.Loop() {
		os.Remove(stamps)
		begun := time.Now()
		sched := f.start(b, po)
		for deadline := time.Now().Add(time.Minute); ; {
			if data, err := os.ReadFile(stamps); err == nil && bytes.HasSuffix(data, []byte("\n")) {
				break
			}
			if time.Now().After(deadline) {
				b.Fatal("nothing was fed")
			}
			time.Sleep(200 * time.Microsecond)
		}
		waits = append(waits, lastStamp(b, stamps).Sub(begun).Seconds())
		b.StopTimer()
		sched.stop(b)
		b.StartTimer()
	}
	b.ReportMetric(median(waits), "s-to-first-feed")
}

// bench is a directory of programs and postoffices: the scheduler and, in ta, its agents.
type bench struct{ dir, scheduler string }

// newBench is a bench with the built programs.
func newBench(b testing.TB) *bench {
	return linkBench(b, program(b, "scheduler"), map[string]string{
		"discard": program(b, "discard"), "oldagent": program(b, "oldagent"), "stamper": testBinary(b),
	})
}

// testOffice is a bench whose scheduler and agents are this test binary.
func testOffice(b testing.TB, agents ...string) *bench {
	programs := map[string]string{}
	for _, agent := range agents {
		programs[agent] = testBinary(b)
	}
	return linkBench(b, testBinary(b), programs)
}

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

func command(b testing.TB, name string, args ...string) string {
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
		if err := os.WriteFile(filepath.Join(po, name), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

func (f *bench) floor(b testing.TB, po string, messages int) time.Duration {
	begun := time.Now()
	out := command(b, program(b, "floor"), po)
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
func (f *bench) start(b testing.TB, po string) *running {
	r := &running{log: filepath.Join(po, "log")}
	r.cmd = exec.Command(f.scheduler, "-i", "-Z", filepath.Join(po, "zmailer.conf"), "-L", r.log)
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
