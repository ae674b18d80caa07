package ta_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	child "zsched/scheduler/agent"
	"zsched/ta"
)

// The test binary is an agent in Go when it is told to be one.
func TestMain(m *testing.M) {
	switch os.Getenv("HELPER") {
	case "agent":
		os.Exit(runAgent())
	case "committer":
		os.Exit(runCommitter())
	}
	os.Exit(m.Run())
}

// runAgent delivers at once, but to the user slow only when it is asked to
// leave.
func runAgent() int {
	s := &ta.Server{Name: "play", Channel: "smtp"}
	ctx, stop := s.Standard()
	defer stop()
	s.Deliver = func(m *ta.Message) {
		for i := range m.Recipients {
			if m.Recipients[i].User == "slow" {
				fmt.Fprintln(os.Stderr, "delivering")
				<-ctx.Done()
			}
			m.Recipients[i].Report(ta.Result{Status: ta.OK, Text: "delivered"})
		}
	}
	if err := s.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// agent is a started agent and the lines that it wrote.
type agent struct {
	child  *child.Agent
	t      *testing.T
	events chan []child.Event
	said   []string // lines of the socket that no test has looked at
	wrote  []string // the same of standard error, whose order with said is not known
}

func start(t *testing.T, dir string, argv ...string) *agent {
	t.Helper()
	return startWith(t, []string{"HELPER=agent"}, dir, argv...)
}

func startWith(t *testing.T, env []string, dir string, argv ...string) *agent {
	t.Helper()
	a := &agent{t: t, events: make(chan []child.Event)}
	c, err := child.Start(child.Spec{
		Path: argv[0], Args: argv, Dir: dir, UID: -1, GID: -1,
		Env: append(env, "PATH="+os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"),
	}, func(b []child.Event) { a.events <- b })
	if err != nil {
		t.Fatal(err)
	}
	a.child = c
	t.Cleanup(func() {
		c.Signal(unix.SIGKILL)
		for !gone(a.next(&a.said)) {
		}
	})
	return a
}

func gone(line string) bool {
	return strings.HasPrefix(line, "exit status") || strings.HasPrefix(line, "signal")
}

// next takes the next line off one of the agent's two streams. After the agent's
// exit it returns the exit status each time.
func (a *agent) next(from *[]string) string {
	a.t.Helper()
	for len(*from) == 0 {
		select {
		case batch := <-a.events:
			for _, h := range batch {
				a.note(h)
			}
		case <-time.After(2 * time.Minute):
			a.t.Fatal("agent is silent")
		}
	}
	line := (*from)[0]
	if !gone(line) {
		*from = (*from)[1:]
	}
	return line
}

// note adds an event to the lines.
func (a *agent) note(h child.Event) {
	switch h := h.(type) {
	case child.Stderr:
		a.wrote = append(a.wrote, string(h))
	case child.Exited:
		a.said = append(a.said, h.Status)
		a.wrote = append(a.wrote, h.Status)
	case child.Line:
		line := "? " + h.Text
		switch h.Kind {
		case ta.Hungry:
			line = "#hungry"
		case ta.Reports:
			line = "#reports"
		case ta.Locked:
			line = "#locked"
		case ta.Resync:
			line = "#resync " + h.Path
		case ta.Reported:
			r := h.Report
			line = fmt.Sprintf("%d/%d %s %s %s", r.Message, r.Offset, r.Notary.Action(), r.Status, r.Text)
		}
		a.said = append(a.said, line)
	}
}

// dialogue sends the lines that begin with "S:" and expects the others, those
// that begin with "E:" on standard error.
func (a *agent) dialogue(script string) {
	a.t.Helper()
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		text := strings.ReplaceAll(strings.TrimSpace(line[min(2, len(line)):]), "|", "\t")
		from, want := &a.said, line
		switch {
		case strings.HasPrefix(line, "S:"):
			if err := a.child.Send([]byte(text + "\n")); err != nil {
				a.t.Fatalf("%s: %v", line, err)
			}
			continue
		case line == "EOF":
			a.child.CloseWrite()
			continue
		case strings.HasPrefix(line, "E:"):
			from, want = &a.wrote, text
		}
		if got := a.next(from); got != want {
			a.t.Fatalf("agent says %q, want %q", got, want)
		}
	}
}

// postoffice creates a postoffice with the messages 15582 and 15583 for four recipients.
func postoffice(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"transport/B/I", "queue/B/I"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"15582", "15583"} {
		control := "@ 0x00000007\ni " + name + "\no 24\nl <m@example.org>\n" +
			"s smtp mx.example.org alice@example.org 0\n" + // 44
			"r           smtp A.example bob 0\n" + // 86
			"r           smtp a.example \"slow joe\" 0\n" + // 119
			"m\nSubject: first\n\n" +
			"s smtp mx.example.org alice@example.org 0\n" +
			"r           smtp b.example eve 0\n" + // 219
			"N NOTIFY=SUCCESS\n" +
			"r           local a.example ada 0\n" +
			"m\nSubject: second\nr           smtp a.example no 0\n\n"
		put(t, filepath.Join(dir, "transport/B/I", name), control)
		put(t, filepath.Join(dir, "queue/B/I", name), "external\nenv-end\nA: b\n\n\nbody\n")
	}
	return dir
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fronts are the tags and pid fields of a control file's recipients.
func fronts(t *testing.T, name string) string {
	return strings.Join(regexp.MustCompile(`(?m)^r.{7}`).FindAllString(get(t, name), -1), "|")
}

func TestAgentInGoLeavesAtASignal(t *testing.T) {
	dir := postoffice(t)
	file := filepath.Join(dir, "transport/B/I/15582")
	put(t, file, strings.Replace(get(t, file), `"slow joe"`, "slow", 1))
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP} {
		idle := start(t, filepath.Join(dir, "transport"), "/proc/self/exe")
		idle.dialogue("#hungry")
		if err := idle.child.Signal(sig); err != nil {
			t.Fatal(err)
		}
		idle.dialogue("exit status 0")
	}
	busy := start(t, filepath.Join(dir, "transport"), "/proc/self/exe")
	busy.dialogue(`#hungry
		S: B/I/15582|a.example
		S: B/I/15583|a.example
		15582/86  ok3 delivered
		E: delivering`)
	if err := busy.child.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	busy.dialogue(`15582/119  ok3 delivered
		exit status 0`)
	if got := fronts(t, file); got != "r+      |r+      |r       |r       |r       " {
		t.Errorf("tags %q", got)
	}
}

func TestOldAgent(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler: ta/examples/oldagent.c is not tested")
	}
	dir := postoffice(t)
	bin, log := filepath.Join(dir, "oldagent"), filepath.Join(dir, "log")
	if out, err := exec.Command(cc, "-O2", "-Wall", "-Wextra", "-Werror", "-o", bin, "examples/oldagent.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a := start(t, filepath.Join(dir, "transport"), bin, "-c", "smtp", "-l", log)
	a.dialogue(`#hungry
		S: B/I/15582|a.example
		15582/86 delivered ok delivered
		15582/119 delivered ok delivered
		#hungry
		S: B/I/15582|a.example|third
		#resync B/I/15582
		#hungry
		S: #idle
		#hungry
		S: B/I/15583|b.example
		15583/219 delivered ok delivered
		#hungry
		S: B/I/77|b.example
		E: # oldagent: B/I/77: No such file or directory
		#resync B/I/77
		#hungry
		S:
		exit status 0`)
	if got := fronts(t, filepath.Join(dir, "transport/B/I/15582")); got != "r+      |r+      |r       |r       |r       " {
		t.Errorf("tags %q", got)
	}
	if got := fronts(t, filepath.Join(dir, "transport/B/I/15583")); got != "r       |r       |r+      |r       |r       " {
		t.Errorf("tags %q", got)
	}
	if got := get(t, log); got != "B/I/15582 86\nB/I/15582 119\nB/I/15583 219\n" {
		t.Errorf("log %q", got)
	}

	// The host of $host; a line that is cut off is not one.
	a = start(t, filepath.Join(dir, "transport"), bin, "-c", "smtp", "a.example")
	a.dialogue(`#hungry
		S: B/I/15583
		15583/86 delivered ok delivered
		15583/119 delivered ok delivered
		#hungry`)
	if err := a.child.Send([]byte("B/I/15583")); err != nil {
		t.Fatal(err)
	}
	a.dialogue("EOF\nexit status 0")

	idle := start(t, filepath.Join(dir, "transport"), bin, "-c", "smtp")
	idle.dialogue("#hungry")
	if err := idle.child.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	idle.dialogue("exit status 0")
}

// An agent in any language is twenty lines.
func TestAgentInShell(t *testing.T) {
	for _, tool := range []string{"sh", "awk", "sed", "tail"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s: ta/examples/agent.sh is not tested", tool)
		}
	}
	script, err := filepath.Abs("examples/agent.sh")
	if err != nil {
		t.Fatal(err)
	}
	dir := postoffice(t)
	before := get(t, filepath.Join(dir, "transport/B/I/15582"))
	archive := filepath.Join(dir, "archive")
	a := start(t, filepath.Join(dir, "transport"), script, "smtp", archive)
	a.dialogue(`#hungry
		S: B/I/15582|a.example
		15582/86 relayed ok archived
		15582/119 relayed ok archived
		#hungry
		S: #idle
		#hungry
		S: B/I/15582|b.example
		15582/219 relayed ok archived
		#hungry
		S: B/I/15582|c.example
		#resync B/I/15582
		#hungry
		S:
		exit status 0`)
	if get(t, filepath.Join(dir, "transport/B/I/15582")) != before {
		t.Error("it wrote into the control file")
	}
	const first, second = "Subject: first\n\nbody\n", "Subject: second\nr           smtp a.example no 0\n\nbody\n"
	if got := get(t, archive); got != first+first+second {
		t.Errorf("archived\n%s, want\n%s", got, first+first+second)
	}

	// With $host in its command it is told the host once, and must not take
	// the recipients of others, who come by another agent.
	a = start(t, filepath.Join(dir, "transport"), script, "smtp", archive, "b.example")
	a.dialogue(`#hungry
		S: B/I/15582
		15582/219 relayed ok archived
		#hungry
		EOF
		exit status 0`)

	if err := os.Remove(filepath.Join(dir, "queue/B/I/15583")); err != nil {
		t.Fatal(err)
	}
	a = start(t, filepath.Join(dir, "transport"), script, "smtp", archive)
	a.dialogue(`#hungry
		S: B/I/15583|b.example
		15583/219 delayed deferred cannot archive
		#hungry
		EOF
		exit status 0`)
}
