package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hostileTricks are the tricks of playHostile. Each is played on three messages for
// one host, which an agent has open at once.
var hostileTricks = []struct {
	trick   string
	runs    int    // processes that play it
	costs   [3]int // failed attempts of the three messages, the most expensive first
	timeout string // agent-timeout; empty: longer than the test
}{
	// An agent that answers nothing more costs the oldest job line an attempt. The timeout
	// is long enough for the agent after it, which answers, even if the machine stands
	// still for some seconds.
	{"mute", 1, [3]int{1, 0, 0}, "15s"},
	{"deaf", 1, [3]int{1, 0, 0}, "15s"},
	{"stopped", 1, [3]int{1, 0, 0}, "15s"},
	{"hanging", 1, [3]int{1, 0, 0}, ""},
	{"clung", 1, [3]int{1, 0, 0}, ""},
	// A death costs the oldest unanswered job line an attempt. Reports count, even
	// those that come after the exit.
	{"dying", 1, [3]int{1, 0, 0}, ""},
	{"late", 1, [3]int{0, 0, 0}, ""},
	// Lines that cannot be understood, and reports about other agents' mail, cost
	// nothing.
	{"slow", 1, [3]int{0, 0, 0}, ""},
	{"garbling", 1, [3]int{0, 0, 0}, ""},
	{"nul", 1, [3]int{0, 0, 0}, ""},
	{"endless", 1, [3]int{0, 0, 0}, ""},
	{"stranger", 1, [3]int{0, 0, 0}, ""},
	{"offsets", 1, [3]int{0, 0, 0}, ""},
	// Each surplus #hungry ends a job line.
	{"hungry", 1, [3]int{1, 1, 0}, ""},
	// An agent that does not start costs time only.
	{"absent", 2, [3]int{0, 0, 0}, ""},
	// Each death costs one attempt, but how they fall on the messages depends on the time that
	// the starts take.
	{"quick", 6, [3]int{2, 2, 2}, ""},
	// An agent that writes without end is slowed down, and killed like one that is mute.
	{"remarks", 1, [3]int{1, 0, 0}, "15s"},
	{"junk", 1, [3]int{1, 0, 0}, "15s"},
	{"stderr", 1, [3]int{1, 0, 0}, "15s"},
	{"resyncs", 1, [3]int{1, 0, 0}, "15s"},
	{"hungries", 1, [3]int{1, 1, 1}, "15s"},
}

// TestHostileAgents: agents that misbehave, all at once, cost what ta(7) says and
// no more. The mail of a polite agent is delivered meanwhile, and in the end every
// message is delivered once. No agent has a descriptor of the scheduler or of another agent,
// and neither memory nor the log grows beyond bounds.
func TestHostileAgents(t *testing.T) {
	t.Parallel()
	s := newHostileSite(t, "")
	sched := s.office.start(t, s.po)
	pid := sched.cmd.Process.Pid
	s.submit("polite", 3)
	s.awaitEvents("polite mail to be delivered", 3, func(e event) bool { return e.Channel == "polite" && e.Class == 2 })
	before, memory := s.idle(pid, 1000), residentMB(t, pid, "VmHWM:")

	s.submit("gated", 1)
	for _, c := range hostileTricks {
		s.submit(c.trick, 3)
	}
	s.submit("polite", 3)
	s.awaitEvents("polite mail to be delivered", 6, func(e event) bool { return e.Channel == "polite" && e.Class == 2 })
	delivered := s.awaitEvents("all mail to be delivered", 3*len(hostileTricks), func(e event) bool {
		return e.Class == 2 && e.Channel != "polite" && e.Channel != "gated"
	})
	s.checkCosts(delivered)
	if gated := s.awaitEvents("", 0, func(e event) bool { return e.Channel == "gated" && e.Event != "arrival" }); len(gated) > 0 {
		t.Errorf("strangers moved the mail of another agent: %v", gated)
	}
	writeFile(t, filepath.Join(s.po, "gate"), "")
	waitEmpty(t, filepath.Join(s.po, "transport"), filepath.Join(s.po, "queue"))
	s.checkOnce()

	s.idle(pid, before)
	if open, err := os.ReadFile(filepath.Join(s.po, "descriptors")); err != nil || len(bytes.Trim(open, "\n")) > 0 {
		t.Errorf("agents had these descriptors: %q, %v", open, err)
	}
	// One line alone has 300 MB.
	if most := residentMB(t, pid, "VmHWM:"); most-memory > 200 {
		t.Errorf("the scheduler took %.0f MB, and %.0f before", most, memory)
	} else {
		t.Logf("the scheduler took %.0f MB, and %.0f before", most, memory)
	}
	sched.stop(t)
	if log, err := os.ReadFile(filepath.Join(s.po, "log")); err != nil || len(log) > 1<<20 {
		t.Errorf("the log has %d bytes, %v", len(log), err)
	}
}

// hostileSite is a postoffice with a clause for each trick and for polite agents.
type hostileSite struct {
	t        *testing.T
	office   *bench
	po       string
	messages int
	owner    int // of the files that are submitted, if this is root
}

// newHostileSite makes a postoffice. params are additional lines of its configuration,
// in which %s stands for the postoffice.
func newHostileSite(t *testing.T, params string) *hostileSite {
	s := &hostileSite{t: t, office: linkBench(t, testBinary(t), map[string]string{"hostile": testBinary(t), "player": program(t, "player")})}
	s.po = s.office.postoffice(t)
	text := fmt.Sprintf("PARAMevent-log=%s/events\n*/* interval=2s retries=1 jitter=0 idlemax=1s overfeed=0\n"+
		"gated/* command=\"player -c $channel gate %[1]s/gate\"\n", s.po)
	clause := "%s/* marking=scheduler sessions=%d maxring=%[2]d maxthr=%[2]d agent-timeout=%[5]s\n\tcommand=\"hostile %[1]s %[3]d %[4]s\"\n"
	for _, c := range hostileTricks {
		text += fmt.Sprintf(clause, c.trick, hostileSessions, c.runs, s.po, cmp.Or(c.timeout, "1h"))
	}
	s.office.write(t, s.po, strings.ReplaceAll(params, "%s", s.po)+text+fmt.Sprintf(clause, "polite", hostileSessions, 0, s.po, "1h"))
	return s
}

// submit submits messages with one recipient each, at h.example.
func (s *hostileSite) submit(channel string, messages int) {
	for range messages {
		s.messages++
		name := strconv.Itoa(s.messages)
		control, message := letter(s.messages, 1)
		control = strings.Replace(control, "smtp h0.example", channel+" h.example", 1)
		writeFile(s.t, filepath.Join(s.po, "queue", name), message)
		writeFile(s.t, filepath.Join(s.po, "transport", "."+name), control)
		if s.owner != 0 {
			for _, file := range []string{"queue/" + name, "transport/." + name} {
				if err := os.Chown(filepath.Join(s.po, file), s.owner, -1); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		if err := os.Rename(filepath.Join(s.po, "transport", "."+name), filepath.Join(s.po, "transport", name)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// event is a line of the event log.
type event struct {
	Event, SpoolID, Channel, Status, Text string
	Class, Attempts                       int
}

// awaitEvents waits until the event log has at least want lines of a kind, and returns
// them.
func (s *hostileSite) awaitEvents(what string, want int, kind func(event) bool) (found []event) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(s.po, "events"))
		found = found[:0]
		for line := range bytes.Lines(text) {
			var e event
			if json.Unmarshal(line, &e) == nil && kind(e) {
				found = append(found, e)
			}
		}
		if len(found) >= want {
			return found
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.po, "log"))
			s.t.Fatalf("waited in vain for %s: %v\n%s", what, found, log[max(0, len(log)-10_000):])
		}
	}
}

// checkCosts compares the attempts before each delivery with those of hostileTricks.
func (s *hostileSite) checkCosts(delivered []event) {
	costs := map[string][]int{}
	for _, e := range delivered {
		costs[e.Channel] = append(costs[e.Channel], e.Attempts-1)
	}
	for _, c := range hostileTricks {
		got := costs[c.trick]
		slices.SortFunc(got, func(a, b int) int { return cmp.Compare(b, a) })
		same := slices.Equal(got, c.costs[:])
		if c.trick == "quick" {
			same = len(got) == 3 && got[0]+got[1]+got[2] == c.runs
		}
		if !same {
			s.t.Errorf("%s cost %d attempts, must be %d", c.trick, got, c.costs)
		}
	}
}

// checkOnce: every recipient was delivered once.
func (s *hostileSite) checkOnce() {
	for recipient, times := range deliveries(s.t, filepath.Join(s.po, "deliveries")) {
		if times != 1 {
			s.t.Errorf("%s was delivered %d times", recipient, times)
		}
	}
}

// idle waits until a process has no child and no more than most descriptors. It
// returns the number of its descriptors.
func (s *hostileSite) idle(pid, most int) int {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		if err != nil || len(tasks) == 0 {
			s.t.Skip("this system does not list the children of a process", err)
		}
		var children []byte
		for _, file := range tasks {
			text, _ := os.ReadFile(file) // the thread may have ended
			children = append(children, text...)
		}
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			s.t.Fatal(err)
		}
		if len(children) == 0 && len(open) <= most {
			return len(open)
		}
		if time.Now().After(deadline) {
			var names []string
			for _, e := range open {
				name, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, e.Name()))
				names = append(names, name)
			}
			s.t.Fatalf("the scheduler has %d descriptors, of %d at most, and the agents %s\n%q", len(open), most, children, names)
		}
	}
}
