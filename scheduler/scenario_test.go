package scheduler_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/config"
	"zsched/ta"
)

var update = flag.Bool("update", false, "rewrite the expected actions of the scenarios")

// TestScenarios plays testdata/*.txt. A file is prose in comments and blocks:
// lines that tell what happens, a line of four hyphens, and the actions that
// must come of them. testdata/README explains the words.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, file, string(data))
			if got == string(data) {
				return
			}
			if !*update {
				t.Errorf("%s differs; what came of it:\n%s", file, got)
				return
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// play runs a scenario and returns it with the actions that really came.
func play(t *testing.T, file, text string) string {
	st := &stage{t: t, start: time.Unix(1_800_000_000, 0), stored: true}
	st.now = st.start
	var out strings.Builder
	for n, block := range strings.SplitAfter(text, "\n\n") {
		told, _, isBlock := strings.Cut(block, "\n----\n")
		if !isBlock {
			out.WriteString(block)
			continue
		}
		st.place = fmt.Sprintf("%s, block %d", file, n+1)
		st.said.Reset()
		st.tell(told)
		if st.said.Len() == 0 {
			st.said.WriteString("nothing\n")
		}
		out.WriteString(told + "\n----\n" + st.said.String())
		if strings.HasSuffix(block, "\n\n") {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// stage is the world around the core in a scenario.
type stage struct {
	t      *testing.T
	place  string
	start  time.Time
	now    time.Time
	s      *scheduler.Scheduler
	said   strings.Builder
	stored bool                                 // writes succeed at once
	ops    map[scheduler.MessageID]scheduler.Op // last op unanswered
	hidden []string                             // actions that are not printed, by their first word
}

func (st *stage) fatalf(format string, args ...any) {
	st.t.Helper()
	st.t.Fatalf(st.place+": "+format, args...)
}

// tell carries out the lines of a block. Indented lines belong to the line
// before; those of "config" and "reload" are a scheduler.cf without its indent.
func (st *stage) tell(told string) {
	var lines []string
	for line := range strings.SplitSeq(told, "\n") {
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case strings.HasPrefix(line, "\t") && len(lines) > 0:
			lines[len(lines)-1] += "\n" + line[1:]
		default:
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		first, clauses, _ := strings.Cut(line, "\n")
		st.one(strings.Fields(first), clauses)
	}
}

func (st *stage) one(words []string, clauses string) {
	if words[0] == "at" {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			st.fatalf("%v", err)
		}
		st.runTo(st.start.Add(d))
		words = words[2:]
	}
	if len(words) == 0 {
		return
	}
	verb, args := words[0], words[1:]
	if st.s == nil && verb != "config" {
		st.fatalf("begin with config")
	}
	switch verb {
	case "config":
		st.s = scheduler.New(st.config(args, clauses), rand.New(rand.NewPCG(1, 2)))
		st.ops = map[scheduler.MessageID]scheduler.Op{}
	case "reload":
		st.step(scheduler.Reloaded{Config: st.config(args, clauses)})
	case "arrive":
		for _, id := range st.numbers(args[0]) {
			st.step(scheduler.Arrived{Message: st.message(id, args[1:])})
		}
	case "hungry":
		for _, a := range args {
			st.step(scheduler.AgentHungry{Agent: st.agent(a)})
		}
	case "spoke":
		st.step(scheduler.AgentSpoke{Agent: st.agent(args[0])})
	case "done":
		for _, id := range st.numbers(args[1]) {
			st.step(scheduler.AgentReported{Agent: st.agent(args[0]), Report: st.report([]string{id + "/100", "ok3"})})
			st.step(scheduler.AgentHungry{Agent: st.agent(args[0])})
		}
	case "report":
		st.step(scheduler.AgentReported{Agent: st.agent(args[0]), Report: st.report(args[1:])})
	case "resync":
		st.step(scheduler.AgentResync{Agent: st.agent(args[0]), Message: scheduler.MessageID(st.number(args[1]))})
	case "exit":
		st.step(scheduler.AgentExited{Agent: st.agent(args[0]), Status: strings.Join(args[1:], " ")})
	case "unstarted":
		st.step(scheduler.AgentFailed{Agent: st.agent(args[0]), Reason: strings.Join(args[1:], " ")})
	case "reread":
		st.reread(args)
	case "etrn":
		st.step(scheduler.Triggered{Host: args[0]})
	case "stop":
		st.step(scheduler.Stopping{Slow: args[0] == "slow"})
	case "store":
		st.store(args)
	case "show":
		st.show(args)
	case "hide":
		st.hidden = append(st.hidden, args...)
	default:
		st.fatalf("unknown word %q", verb)
	}
}

// runTo lets time pass: a Tick whenever the core wants one.
func (st *stage) runTo(end time.Time) {
	for range 100_000 {
		next, ok := st.s.Next()
		if !ok || next.After(end) {
			st.now = end
			return
		}
		if next.After(st.now) {
			st.now = next
		}
		st.step(scheduler.Tick{})
	}
	st.fatalf("time does not pass")
}

// step tells the core one event, prints the actions and answers those on
// files while the store works.
func (st *stage) step(e scheduler.Event) {
	actions := append([]scheduler.Action(nil), st.s.Step(st.now, e)...)
	st.s.Check()
	for _, a := range actions {
		text := st.print(a)
		word, _, _ := strings.Cut(text, " ")
		if text != "" && !slices.Contains(st.hidden, strings.TrimSuffix(word, ":")) {
			if e == (scheduler.Event(scheduler.Tick{})) {
				text = "+" + st.now.Sub(st.start).Round(time.Second).String() + " " + text
			}
			st.said.WriteString(text + "\n")
		}
	}
	for _, a := range actions {
		switch a := a.(type) {
		case scheduler.Start:
			st.step(scheduler.AgentStarted{Agent: a.Agent, PID: 1000 + int(a.Agent)})
		case scheduler.Mark:
			st.answer(a.Message, a.Op)
		case scheduler.Finish:
			st.answer(a.Message, a.Op)
		case scheduler.Read:
			st.ops[a.Message] = a.Op
		}
	}
}

func (st *stage) answer(id scheduler.MessageID, op scheduler.Op) {
	if st.stored {
		st.step(scheduler.Done{Op: op})
		return
	}
	st.ops[id] = op
}

func (st *stage) print(a scheduler.Action) string {
	switch a := a.(type) {
	case scheduler.Start:
		return fmt.Sprintf("start A%d for %s/%s: %s", a.Agent, a.Channel, a.Host, strings.Join(a.Command, " "))
	case scheduler.Feed:
		return fmt.Sprintf("A%d <- %s", a.Agent, strings.ReplaceAll(strings.TrimSuffix(string(ta.AppendJob(nil, a.Job)), "\n"), "\t", " "))
	case scheduler.Idle:
		return fmt.Sprintf("A%d <- #idle", a.Agent)
	case scheduler.Close:
		if a.Slow {
			return fmt.Sprintf("close A%d slowly", a.Agent)
		}
		return fmt.Sprintf("close A%d", a.Agent)
	case scheduler.Kill:
		if a.Hard {
			return fmt.Sprintf("kill -9 A%d", a.Agent)
		}
		return fmt.Sprintf("kill A%d", a.Agent)
	case scheduler.Mark:
		text := fmt.Sprintf("mark %d:", a.Message)
		for _, m := range a.Marks {
			text += fmt.Sprintf(" %d", m.Offset)
			if !m.LeaveTag {
				text += string(m.Tag)
			}
			if m.Diagnose {
				text += fmt.Sprintf(" d(%q %q)", m.Notary, m.Text)
			}
		}
		return text
	case scheduler.Read:
		return fmt.Sprintf("read %d", a.Message)
	case scheduler.Finish:
		if a.Owes {
			return fmt.Sprintf("finish %d, which may owe a notice", a.Message)
		}
		return fmt.Sprintf("finish %d", a.Message)
	case scheduler.Account:
		return fmt.Sprintf("log %d %s %s/%s", a.Message, a.State, a.Channel, a.Host)
	case scheduler.Complete:
		return ""
	case scheduler.Note:
		if a.Message != 0 {
			return fmt.Sprintf("note %d: %s", a.Message, a.Text)
		}
		return "note: " + a.Text
	case scheduler.Probe:
		return "probe"
	case scheduler.Stopped:
		return "stopped"
	}
	return fmt.Sprintf("%#v", a)
}

// ordinary is a system on which everybody is user 1000.
var ordinary = config.System{
	UID: 1000, GID: 1000,
	User:  func(string) (int, error) { return 1000, nil },
	Group: func(string) (int, error) { return 1000, nil },
}

// config reads clauses; the words before them set what is no keyword:
// maxagents=3 forkrate=2 timeout=2h frozen only=smtp/host.
func (st *stage) config(words []string, clauses string) *scheduler.Config {
	f, err := config.Parse("scheduler.cf", []byte(clauses+"\n"), ordinary)
	if err != nil {
		st.fatalf("%v", err)
	}
	c := f.Scheduler
	c.Env = map[string]string{"LOGDIR": "/var/log/mail"}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "maxagents":
			c.MaxAgents = st.number(value)
		case "forkrate":
			c.ForkRate = st.number(value)
		case "timeout":
			c.AgentTimeout, err = time.ParseDuration(value)
			if err != nil {
				st.fatalf("%v", err)
			}
		case "frozen":
			c.Frozen = true
		case "only":
			c.Only.Channel, c.Only.Host, _ = strings.Cut(value, "/")
		default:
			st.fatalf("unknown setting %q", word)
		}
	}
	return c
}

// message reads: smtp/example.org smtp/other:success local/-:x1 from=a@b
// errorto=a@b age=3h log=id obsoletes=id owner=7 path=A/7 owes. Recipients
// stand at offsets 100, 200, …
func (st *stage) message(id string, words []string) scheduler.Message {
	m := scheduler.Message{
		ID: scheduler.MessageID(st.number(id)), Path: id,
		Sender: "a@b.example", ErrorTo: "a@b.example", ModifiedAt: st.now, ChangedAt: st.now,
	}
	for _, word := range words {
		name, value, set := strings.Cut(word, "=")
		switch {
		case word == "owes":
			m.Owes = true
		case !set:
			m.Recipients = append(m.Recipients, st.recipient(word, len(m.Recipients)))
		case name == "from":
			m.Sender, m.ErrorTo = value, value
		case name == "errorto":
			m.ErrorTo = value
		case name == "path":
			m.Path = value
		case name == "age":
			d, err := time.ParseDuration(value)
			if err != nil {
				st.fatalf("%v", err)
			}
			m.ModifiedAt = st.now.Add(-d)
		case name == "owner":
			m.Owner = uint32(st.number(value))
		case name == "log":
			m.LogID = value
		case name == "obsoletes":
			m.Obsoletes = append(m.Obsoletes, value)
		default:
			st.fatalf("unknown word %q", word)
		}
	}
	return m
}

func (st *stage) recipient(word string, before int) scheduler.Recipient {
	where, how, _ := strings.Cut(word, ":")
	channel, host, _ := strings.Cut(where, "/")
	r := scheduler.Recipient{
		Offset: int64(100 * (before + 1)), Channel: channel, Host: host, Notify: ctlfile.NotifyFailure,
	}
	for word := range strings.SplitSeq(how, ",") {
		switch {
		case word == "":
		case word == "success":
			r.Notify |= ctlfile.NotifySuccess
		case word == "never":
			r.Notify = ctlfile.NotifyNever
		case word[0] == 'x':
			r.Class = st.number(word[1:])
		default:
			st.fatalf("unknown word %q of a recipient", word)
		}
	}
	return r
}

// report reads: 7/100 deferred some text. Before the status can stand
// code=4.4.1, or notary=rcpt,action,code,diagnostic,remote.
func (st *stage) report(words []string) ta.Report {
	notary := ""
	if code, ok := strings.CutPrefix(words[1], "code="); ok {
		notary = "rcpt,failed," + code + ",smtp; 400,"
	} else if value, ok := strings.CutPrefix(words[1], "notary="); ok {
		notary = value
	}
	if notary != "" {
		words = append(words[:1:1], words[2:]...)
	}
	notary = strings.ReplaceAll(notary, ",", "\x01")
	said := ta.ParseSaid([]byte(words[0] + "\t" + notary + "\t" + strings.Join(words[1:], " ")))
	if said.Kind != ta.Reported {
		st.fatalf("bad report: %v", said)
	}
	return said.Report
}

// reread reads: 7 gone, or 7 100=+ 200=- 300=~ 400= owes.
func (st *stage) reread(words []string) {
	id := scheduler.MessageID(st.number(words[0]))
	e := scheduler.Reread{Op: st.ops[id]}
	for _, word := range words[1:] {
		if word == "gone" || word == "owes" {
			e.Missing = e.Missing || word == "gone"
			e.Owes = e.Owes || word == "owes"
			continue
		}
		offset, tag, _ := strings.Cut(word, "=")
		if tag == "" {
			tag = " "
		}
		e.Recipients = append(e.Recipients, scheduler.RecipientState{Offset: int64(st.number(offset)), Tag: ctlfile.Tag(tag[0])})
	}
	st.step(e)
}

// store reads: waits, works, done 7, fails 7 REASON, full 7, gone 7, back.
func (st *stage) store(words []string) {
	var op scheduler.Op
	if len(words) > 1 {
		op = st.ops[scheduler.MessageID(st.number(words[1]))]
	}
	switch words[0] {
	case "waits":
		st.stored = false
	case "works":
		st.stored = true
	case "done":
		st.step(scheduler.Done{Op: op})
	case "fails":
		st.step(scheduler.Failed{Op: op, Reason: strings.Join(words[2:], " ")})
	case "full":
		st.step(scheduler.Failed{Op: op, Reason: "no space left on device", Wide: true})
	case "gone":
		st.step(scheduler.Failed{Op: op, Reason: "no such file", Missing: true})
	case "back":
		st.step(scheduler.SpoolBack{})
	default:
		st.fatalf("unknown word %q", words[0])
	}
}

// show prints what the core knows: counts, next, or known N.
func (st *stage) show(words []string) {
	switch words[0] {
	case "counts":
		c := st.s.Counts()
		fmt.Fprintf(&st.said, "messages %d vertices %d recipients %d threads %d agents %d idle %d sessions %d\n",
			c.Messages, c.Vertices, c.Recipients, c.Threads, c.Agents, c.AgentsIdle, c.Sessions)
	case "next":
		next, ok := st.s.Next()
		if !ok {
			st.said.WriteString("never\n")
			return
		}
		fmt.Fprintf(&st.said, "%v\n", next.Sub(st.start))
	case "known":
		names := []string{"absent", "present", "leaving"}
		fmt.Fprintf(&st.said, "%s\n", names[st.s.Known(scheduler.MessageID(st.number(words[1])))])
	default:
		st.fatalf("unknown word %q", words[0])
	}
}

func (st *stage) agent(word string) scheduler.AgentID {
	return scheduler.AgentID(st.number(strings.TrimPrefix(word, "A")))
}

// numbers reads 7, or a row as in 7-12.
func (st *stage) numbers(word string) []string {
	first, last, isRow := strings.Cut(word, "-")
	if !isRow {
		return []string{word}
	}
	var row []string
	for n := st.number(first); n <= st.number(last); n++ {
		row = append(row, strconv.Itoa(n))
	}
	return row
}

func (st *stage) number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		st.fatalf("%v", err)
	}
	return n
}
