package scheduler_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/ta"
)

// TestTranscripts replays recorded dialogues between ZMailer's scheduler and
// its agents. The core is told what the agent said, and must say what the
// scheduler said, line by line.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("../ta/testdata/agents/*/*.log")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			d := &dialogue{t: t, now: time.Unix(1_800_000_000, 0), chunks: readTranscript(t, file)}
			d.run()
		})
	}
}

// chunk is one write of either side.
type chunk struct {
	agent  bool // the agent wrote it
	closed bool // the side was closed
	text   string
}

func (c chunk) lines() []string { return strings.Split(strings.TrimSuffix(c.text, "\n"), "\n") }

// jobs returns the job lines of a chunk that the scheduler wrote.
func (c chunk) jobs() []ta.JobLine {
	var jobs []ta.JobLine
	for _, line := range c.lines() {
		if c.agent || c.closed || line == "" || line == "#idle" {
			continue
		}
		p, host, found := strings.Cut(line, "\t")
		jobs = append(jobs, ta.JobLine{Path: p, Host: host, WithHost: !found})
	}
	return jobs
}

func readTranscript(t *testing.T, file string) []chunk {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var chunks []chunk
	for in := bufio.NewScanner(f); in.Scan(); {
		words := strings.SplitN(strings.TrimSpace(in.Text()), " ", 4)
		if words[0] == "#" || len(words) < 3 || words[1] == "TA" {
			continue
		}
		c := chunk{agent: words[1] == "T->S", closed: words[2] == "EOF"}
		if !c.closed {
			if c.text, err = strconv.Unquote(words[3]); err != nil {
				t.Fatalf("%s: %v in %s", file, err, in.Text())
			}
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// dialogue plays one agent to the core.
type dialogue struct {
	t       *testing.T
	now     time.Time
	chunks  []chunk
	s       *scheduler.Scheduler
	arrived map[string]bool // paths of messages that have arrived
	output  []string        // said by the core and not yet compared
	agent   scheduler.AgentID
	closed  bool
}

func (d *dialogue) run() {
	clauses := "*/* overfeed=150 maxring=1 jitter=0 idlemax=100s expiry=0"
	command := "smtp"
	if first := d.firstJob(); first.WithHost {
		command = "smtp $host"
	}
	sc := &scenario{t: d.t}
	config := sc.config(nil, clauses+"\nch command=\""+command+"\"")
	d.s = scheduler.New(config, rand.New(rand.NewPCG(1, 2)))
	d.arrived = map[string]bool{}
	d.arriveForJobs(d.nextFromScheduler(0))
	for i := 0; i < len(d.chunks); i++ {
		c := d.chunks[i]
		switch {
		case c.agent && c.closed:
			d.step(scheduler.AgentExited{Agent: d.agent, Status: "exit status 0"})
		case c.agent:
			if i > 0 && !d.answersIdle(i) {
				d.arriveForJobs(d.nextFromScheduler(i))
			}
			d.agentWrites(c)
		case c.closed || c.text == "\n":
			d.expectClose()
		default:
			d.expect(i, c)
		}
	}
}

func (d *dialogue) firstJob() ta.JobLine {
	for _, c := range d.chunks {
		if jobs := c.jobs(); len(jobs) > 0 {
			return jobs[0]
		}
	}
	d.t.Fatal("the transcript has no job line")
	return ta.JobLine{}
}

// nextFromScheduler returns what the scheduler wrote after chunk i, before the
// agent spoke again.
func (d *dialogue) nextFromScheduler(i int) chunk {
	for _, c := range d.chunks[i+1:] {
		if !c.agent {
			return c
		}
		if i > 0 {
			break
		}
	}
	return chunk{closed: true}
}

// answersIdle reports whether chunk i answers #idle.
func (d *dialogue) answersIdle(i int) bool {
	return !d.chunks[i-1].agent && d.chunks[i-1].text == "#idle\n"
}

// arriveForJobs lets the messages of a chunk's job lines arrive.
func (d *dialogue) arriveForJobs(c chunk) {
	for _, job := range c.jobs() {
		host := job.Host
		if job.WithHost {
			host = "wh.example"
		}
		if d.arrived[job.Path] {
			continue
		}
		d.arrived[job.Path] = true
		d.step(scheduler.Arrived{Message: d.message(job.Path, host)})
	}
}

// message returns a message with the recipients on which the agent reports.
// host is the host of job lines that name none.
func (d *dialogue) message(file, host string) scheduler.Message {
	id, _ := ctlfile.Number(path.Base(file))
	m := scheduler.Message{ID: scheduler.MessageID(id), Path: file, ModifiedAt: d.now, ChangedAt: d.now}
	for i, c := range d.chunks {
		for _, job := range c.jobs() {
			if job.Path != file {
				continue
			}
			if !job.WithHost {
				host = job.Host
			}
			for _, offset := range d.reportedOffsets(i, id) {
				if !slices.ContainsFunc(m.Recipients, func(r ctlfile.OpenRecipient) bool { return r.Offset == offset }) {
					m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{Offset: offset, Channel: "ch", Host: host})
				}
			}
		}
	}
	slices.SortFunc(m.Recipients, func(a, b ctlfile.OpenRecipient) int { return int(a.Offset - b.Offset) })
	if len(m.Recipients) == 0 { // its agent was killed before it said anything
		m.Recipients = []ctlfile.OpenRecipient{{Offset: 160, Channel: "ch", Host: host}}
	}
	return m
}

// reportedOffsets returns the recipients of a message on which the agent
// reported after chunk i, until it was given the message again.
func (d *dialogue) reportedOffsets(i int, id uint64) []int64 {
	var offsets []int64
	for _, c := range d.chunks[i+1:] {
		if !c.agent && slices.ContainsFunc(c.jobs(), func(j ta.JobLine) bool { n, _ := ctlfile.Number(path.Base(j.Path)); return n == id }) {
			break
		}
		for _, line := range c.lines() {
			if said := ta.ParseLine([]byte(line)); c.agent && said.Kind == ta.Reported && said.Report.Message == id {
				offsets = append(offsets, said.Report.Offset)
			}
		}
	}
	return offsets
}

// agentWrites tells the core what the agent wrote.
func (d *dialogue) agentWrites(c chunk) {
	for _, line := range c.lines() {
		switch said := ta.ParseLine([]byte(line)); said.Kind {
		case ta.Hungry:
			d.step(scheduler.AgentSaid{Agent: d.agent, Word: scheduler.Hungry})
		case ta.Reported:
			d.step(scheduler.AgentReported{Agent: d.agent, Report: said.Report})
		default:
			d.t.Fatalf("the agent said %q, which is %+v", line, said)
		}
	}
}

// expect compares the lines of a chunk with what the core says. If the core has
// not said them yet, it waits for mail or for the time of a retry.
func (d *dialogue) expect(i int, c chunk) {
	d.arriveForJobs(c)
	want := c.lines()
	for n := 0; len(d.output) < len(want) && n < 100; n++ {
		d.tick()
	}
	if len(d.output) < len(want) {
		d.t.Fatalf("chunk %d: the core said %q, want %q", i, d.output, want)
	}
	if got := d.output[:len(want)]; !slices.Equal(got, want) {
		d.t.Errorf("chunk %d: the core said %q, want %q", i, got, want)
	}
	d.output = d.output[len(want):]
}

func (d *dialogue) tick() {
	if next, ok := d.s.Next(); ok {
		d.now = next
		d.step(scheduler.Tick{})
	}
}

// expectClose waits until the core closes the agent.
func (d *dialogue) expectClose() {
	for n := 0; !d.closed && n < 100; n++ {
		d.tick()
	}
	if !d.closed {
		d.t.Error("the agent was not asked to leave")
	}
}

func (d *dialogue) step(e scheduler.Event) {
	actions := scheduler.Keep(d.s.Step(scheduler.At(d.now), e))
	d.s.Check()
	for _, a := range actions {
		switch a := a.(type) {
		case scheduler.Start:
			d.agent = a.Agent
		case *scheduler.Feed:
			d.output = append(d.output, strings.TrimSuffix(string(ta.AppendJobLine(nil, a.Job)), "\n"))
		case scheduler.Idle:
			d.output = append(d.output, "#idle")
		case scheduler.Close:
			d.closed = true
		case *scheduler.Finish:
			d.step(scheduler.Done{Op: a.Op})
		case scheduler.Mark:
			d.step(scheduler.Done{Op: a.Op})
		case scheduler.Note:
			if !strings.Contains(a.Text, "is gone") { // it may be killed at the end
				d.t.Errorf("note: %s", a.Text)
			}
		}
	}
}
