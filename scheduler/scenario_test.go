package scheduler_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/scheduler"
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
	moves  map[scheduler.MessageID]scheduler.Op // the same of holding and sending elsewhere
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
		st.moves = map[scheduler.MessageID]scheduler.Op{}
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
	case "flooded":
		st.step(scheduler.AgentFlooded{Agent: st.agent(args[0])})
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
	case "order":
		st.order(args)
	case "thread":
		channel, host, _ := strings.Cut(args[0], "/")
		st.step(scheduler.HeldThread{Channel: channel, Host: host, Held: args[1] == "held"})
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
		case scheduler.Hold:
			st.moves[a.Message] = a.Op
			st.answer(a.Message, a.Op)
		case scheduler.Resubmit:
			st.moves[a.Message] = a.Op
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
