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
	"zsched/scheduler/rule"
)

var update = flag.Bool("update", false, "rewrite the expected actions of the scenarios")

// TestScenarios plays the files testdata/*.txt. Each tells a short story about
// the scheduler that can be read aloud. A file is comments (#) and blocks. A
// block has lines that say what happens, then a line of four hyphens, then the
// actions that must follow:
//
//	at 90s hungry A1
//	----
//	A1 <- 7 example.org
//
// This says: 90 seconds after the start, agent A1 says #hungry, and the
// scheduler feeds it message 7 for example.org. testdata/README explains all
// words. The test plays the file, prints the actions that the core really
// returned in the same form, and compares the texts; with -update it writes
// them into the file.
//
// The scenario methods are in three files: this one plays the lines,
// scenario_input_test.go reads their arguments, and scenario_output_test.go
// prints actions and views.
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
				t.Errorf("%s differs; the actions really are:\n%s", file, got)
				return
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// play plays a scenario and returns its text with the actions that the core
// returned.
func play(t *testing.T, file, text string) string {
	sc := &scenario{t: t, start: time.Unix(1_800_000_000, 0), writesSucceed: true}
	sc.now = sc.start
	var out strings.Builder
	for n, block := range strings.SplitAfter(text, "\n\n") {
		told, _, isBlock := strings.Cut(block, "\n----\n")
		if !isBlock {
			out.WriteString(block)
			continue
		}
		sc.position = fmt.Sprintf("%s, block %d", file, n+1)
		sc.output.Reset()
		sc.runBlock(told)
		if sc.output.Len() == 0 {
			sc.output.WriteString("nothing\n")
		}
		out.WriteString(told + "\n----\n" + sc.output.String())
		if strings.HasSuffix(block, "\n\n") {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// scenario is all that is around the core while a scenario is played: the
// clock, a spool that answers at once (unless "store waits"), and agents, whose
// processes exist at once.
type scenario struct {
	t             *testing.T
	position      string
	start         time.Time
	now           time.Time
	s             *scheduler.Scheduler
	output        strings.Builder
	writesSucceed bool                                 // at once
	ops           map[scheduler.MessageID]scheduler.Op // last one that is not answered
	moveOps       map[scheduler.MessageID]scheduler.Op // the same, for Hold and Resubmit only
	hidden        []string                             // first words of actions that are not printed
	saved         map[scheduler.MessageID][]scheduler.SavedRecipient
	orders        map[scheduler.MessageID][]scheduler.Ordered // that the scheduler before has not carried out
}

func (sc *scenario) fatalf(format string, args ...any) {
	sc.t.Helper()
	sc.t.Fatalf(sc.position+": "+format, args...)
}

// runBlock carries out the lines of a block. Indented lines belong to the line
// before; those after "config" and "reload" are a scheduler.cf without its
// indentation.
func (sc *scenario) runBlock(told string) {
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
		sc.runLine(strings.Fields(first), clauses)
	}
}

// runLine carries out one line.
func (sc *scenario) runLine(words []string, clauses string) {
	if words[0] == "at" {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			sc.fatalf("%v", err)
		}
		sc.advanceTo(sc.start.Add(d))
		words = words[2:]
	}
	if len(words) == 0 {
		return
	}
	verb, args := words[0], words[1:]
	if sc.s == nil && verb != "config" {
		sc.fatalf("begin with config")
	}
	switch verb {
	case "late":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			sc.fatalf("%v", err)
		}
		sc.now = sc.start.Add(d)
	case "config":
		sc.s = scheduler.New(sc.config(args, clauses), rand.New(rand.NewPCG(1, 2)))
		sc.ops = map[scheduler.MessageID]scheduler.Op{}
		sc.moveOps = map[scheduler.MessageID]scheduler.Op{}
	case "restart":
		sc.restart(sc.config(args, clauses))
	case "reload":
		sc.step(scheduler.Reloaded{Config: sc.config(args, clauses)})
	case "clock":
		by, err := time.ParseDuration(args[0])
		if err != nil {
			sc.fatalf("%v", err)
		}
		sc.start, sc.now = sc.start.Add(by), sc.now.Add(by)
		sc.step(scheduler.Tick{})
	case "arrive":
		for _, id := range sc.numbers(args[0]) {
			sc.step(scheduler.Arrived{Message: sc.message(id, args[1:])})
		}
	case "hungry":
		for _, a := range args {
			sc.step(scheduler.AgentSaid{Agent: sc.agent(a), Word: scheduler.Hungry})
		}
	case "reports":
		for _, a := range args {
			sc.step(scheduler.AgentSaid{Agent: sc.agent(a), Word: scheduler.Reports})
		}
	case "locked":
		sc.step(scheduler.AgentSaid{Agent: sc.agent(args[0]), Word: scheduler.Locked})
	case "done":
		for _, id := range sc.numbers(args[1]) {
			sc.step(scheduler.AgentReported{Agent: sc.agent(args[0]), Report: sc.report([]string{id + "/100", "ok3"})})
			sc.step(scheduler.AgentSaid{Agent: sc.agent(args[0]), Word: scheduler.Hungry})
		}
	case "report":
		sc.step(scheduler.AgentReported{Agent: sc.agent(args[0]), Report: sc.report(args[1:])})
	case "resync":
		sc.step(scheduler.AgentResync{Agent: sc.agent(args[0]), Message: scheduler.MessageID(sc.number(args[1]))})
	case "exit":
		sc.step(scheduler.AgentExited{Agent: sc.agent(args[0]), Status: strings.Join(args[1:], " ")})
	case "pid":
		sc.step(scheduler.AgentStarted{Agent: sc.agent(args[0]), PID: sc.number(args[1])})
	case "unstarted":
		sc.step(scheduler.AgentFailed{Agent: sc.agent(args[0]), Reason: strings.Join(args[1:], " ")})
	case "reread":
		sc.reread(args)
	case "etrn":
		sc.step(scheduler.Triggered{Host: args[0]})
	case "order":
		sc.order(args)
	case "thread":
		channel, host, _ := strings.Cut(args[0], "/")
		sc.step(scheduler.HeldThread{Channel: channel, Host: host, Held: args[1] == "held"})
	case "lift":
		channel, host, _ := strings.Cut(args[0], "/")
		sc.step(scheduler.Lifted{Channel: channel, Host: host})
	case "allow":
		sc.allow(words[1:])
	case "dead":
		sc.dead(args)
	case "stop":
		sc.step(scheduler.Stopping{Slow: args[0] == "slow"})
	case "store":
		sc.store(args)
	case "show":
		sc.show(args)
	case "hide":
		sc.hidden = append(sc.hidden, args...)
	default:
		sc.fatalf("unknown word %q", verb)
	}
}

// restart starts another scheduler that knows what this one has saved. Its messages
// arrive again by "arrive".
func (sc *scenario) restart(config *rule.Config) {
	sc.saved = map[scheduler.MessageID][]scheduler.SavedRecipient{}
	sc.orders = map[scheduler.MessageID][]scheduler.Ordered{}
	var threads []scheduler.SavedThread
	var part scheduler.Saved
	pass := sc.s.Save()
	for more := true; more; {
		more = pass.Next(&part, 10)
		threads = append(threads, part.Threads...)
		for _, r := range part.Recipients {
			sc.saved[r.Message] = append(sc.saved[r.Message], r)
		}
		for _, o := range part.Orders {
			sc.orders[o.Targets[0].Message] = append(sc.orders[o.Targets[0].Message], o.Ordered)
		}
	}
	sc.s = scheduler.New(config, rand.New(rand.NewPCG(1, 2)))
	for _, t := range threads {
		sc.step(scheduler.Restored{Thread: t})
	}
}

// advanceTo lets time pass, with a Tick each time the core wants one.
func (sc *scenario) advanceTo(end time.Time) {
	for range 100_000 {
		next, ok := sc.s.Next()
		if !ok || next.After(end) {
			sc.now = end
			return
		}
		if next.After(sc.now) {
			sc.now = next
		}
		sc.step(scheduler.Tick{})
	}
	sc.fatalf("time does not pass")
}

// step tells the core one event, prints the actions, and answers those on files
// if writes succeed.
func (sc *scenario) step(e scheduler.Event) {
	actions := scheduler.Keep(sc.s.Step(scheduler.Now{Elapsed: 1_800_000_000*time.Second + sc.now.Sub(sc.start), Wall: sc.now}, e))
	sc.s.Check()
	for _, a := range actions {
		text := sc.format(a)
		word, _, _ := strings.Cut(text, " ")
		if text != "" && !slices.Contains(sc.hidden, strings.TrimSuffix(word, ":")) {
			if e == (scheduler.Event(scheduler.Tick{})) {
				text = "+" + sc.now.Sub(sc.start).Round(time.Millisecond).String() + " " + text
			}
			sc.output.WriteString(text + "\n")
		}
	}
	for _, a := range actions {
		switch a := a.(type) {
		case scheduler.Start:
			sc.step(scheduler.AgentStarted{Agent: a.Agent, PID: 1000 + int(a.Agent)})
		case scheduler.Mark:
			sc.answerWrite(a.Message, a.Op)
		case scheduler.Report:
			sc.answerWrite(a.Message, a.Op)
		case *scheduler.Finish:
			sc.answerWrite(a.Message, a.Op)
		case scheduler.Hold:
			sc.moveOps[a.Message] = a.Op
			sc.answerWrite(a.Message, a.Op)
		case scheduler.Release:
			sc.moveOps[a.Message] = a.Op
			sc.answerWrite(a.Message, a.Op)
		case scheduler.Resubmit:
			sc.moveOps[a.Message] = a.Op
			sc.answerWrite(a.Message, a.Op)
		case scheduler.Read:
			sc.ops[a.Message] = a.Op
		}
	}
}

// answerWrite answers an action on files at once, or keeps it for "store done"
// and the like.
func (sc *scenario) answerWrite(id scheduler.MessageID, op scheduler.Op) {
	if sc.writesSucceed {
		sc.step(scheduler.Done{Op: op})
		return
	}
	sc.ops[id] = op
}
