package scheduler_test

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/config"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// testSystem is a system on which each user is user 1000.
var testSystem = config.System{
	UID: 1000, GID: 1000,
	User:  func(string) (int, error) { return 1000, nil },
	Group: func(string) (int, error) { return 1000, nil },
}

// config reads the lines of "config" and "reload": clauses, and before them
// words for what has no keyword: maxagents=3 forkrate=2 timeout=2h frozen events
// only=smtp/host cluster.
func (sc *scenario) config(words []string, clauses string) *rule.Config {
	f, err := config.Parse("scheduler.cf", []byte(clauses+"\n"), testSystem)
	if err != nil {
		sc.fatalf("%v", err)
	}
	c := f.Scheduler
	c.Env = map[string]string{"LOGDIR": "/var/log/mail"}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "maxagents":
			c.MaxAgents = sc.number(value)
		case "forkrate":
			c.ForkRate = sc.number(value)
		case "timeout":
			c.Defaults.AgentTimeout, err = time.ParseDuration(value)
			if err != nil {
				sc.fatalf("%v", err)
			}
		case "cluster":
			c.Cluster = true
		case "frozen":
			c.Frozen = true
		case "events":
			c.Events = true
		case "only":
			c.Only.Channel, c.Only.Host, _ = strings.Cut(value, "/")
		default:
			sc.fatalf("unknown setting %q", word)
		}
	}
	return c
}

// message reads the words of "arrive": smtp/example.org smtp/other:success
// local/-:x1 from=a@b errorto=a@b source=uid:7 age=3h log=id obsoletes=id owner=7 path=A/7
// owes hold held released. The recipients have the offsets 100, 200, and so on.
func (sc *scenario) message(id string, words []string) scheduler.Message {
	number := scheduler.MessageID(sc.number(id))
	m := scheduler.Message{
		ID: number, Path: id, Saved: sc.saved[number], Orders: sc.orders[number],
		Sender: "a@b.example", ErrorTo: "a@b.example", ModifiedAt: sc.now, ChangedAt: sc.now,
	}
	for _, word := range words {
		name, value, set := strings.Cut(word, "=")
		switch {
		case word == "owes":
			m.Owes = true
		case word == "held":
			m.UnderHold = true
		case word == "hold":
			m.Hold = &scheduler.HoldOrder{By: "root"}
		case word == "released":
			m.Released = true
		case word == "null":
			m.Sender, m.ErrorTo, m.NullSender = "<>", "", true
		case !set || strings.Contains(name, ":"):
			m.Recipients = append(m.Recipients, sc.recipient(word, len(m.Recipients)))
		case name == "from":
			m.Sender, m.ErrorTo = value, value
		case name == "errorto":
			m.ErrorTo = value
		case name == "source":
			m.Source = value
		case name == "path":
			m.Path = value
		case name == "age":
			d, err := time.ParseDuration(value)
			if err != nil {
				sc.fatalf("%v", err)
			}
			m.ModifiedAt = sc.now.Add(-d)
		case name == "owner":
			m.Owner = uint32(sc.number(value))
		case name == "log":
			m.MessageID = value
		case name == "obsoletes":
			m.Obsoletes = append(m.Obsoletes, value)
		default:
			sc.fatalf("unknown word %q", word)
		}
	}
	return m
}

func (sc *scenario) recipient(word string, before int) ctlfile.OpenRecipient {
	where, how, _ := strings.Cut(word, ":")
	channel, host, _ := strings.Cut(where, "/")
	r := ctlfile.OpenRecipient{
		Offset: int64(100 * (before + 1)), Channel: channel, Host: host, Notify: ctlfile.NotifyFailure,
	}
	for word := range strings.SplitSeq(how, ",") {
		switch {
		case word == "":
		case word == "success":
			r.Notify |= ctlfile.NotifySuccess
		case word == "delay":
			r.Notify |= ctlfile.NotifyDelay
		case strings.HasPrefix(word, "delays="):
			r.Delays = sc.number(word[len("delays="):])
		case word == "never":
			r.Notify = ctlfile.NotifyNever
		case word[0] == 'x':
			r.Class = sc.number(word[1:])
		default:
			sc.fatalf("unknown word %q after a recipient", word)
		}
	}
	return r
}

// report reads the words of "report": 7/100 deferred some text. Before the
// status there may be code=4.4.1 or notary=rcpt,action,code,diagnostic,remote.
func (sc *scenario) report(words []string) ta.Report {
	notary := ""
	if code, ok := strings.CutPrefix(words[1], "code="); ok {
		notary = "rcpt,failed," + code + ",smtp; 400,"
	} else if value, ok := strings.CutPrefix(words[1], "notary="); ok {
		notary = value
	}
	if notary != "" {
		words = append(words[:1:1], words[2:]...)
	}
	site := ""
	if name, ok := strings.CutPrefix(words[1], "site="); ok {
		site, words = name, append(words[:1:1], words[2:]...)
	}
	notary = strings.ReplaceAll(notary, ",", "\x01")
	said := ta.ParseLine([]byte(words[0] + "\t" + notary + "\t" + strings.Join(words[1:], " ")))
	if said.Kind != ta.Reported {
		sc.fatalf("bad report: %v", said)
	}
	said.Report.Site = site
	return said.Report
}

// reread reads: 7 gone, or 7 100=+ 200=- 300=~ 400= owes.
func (sc *scenario) reread(words []string) {
	id := scheduler.MessageID(sc.number(words[0]))
	e := scheduler.Done{Op: sc.ops[id]}
	for _, word := range words[1:] {
		switch word {
		case "gone":
			sc.step(scheduler.Failed{Op: e.Op, Missing: true})
			return
		case "owes":
			e.Owes = true
			continue
		}
		offset, tag, _ := strings.Cut(word, "=")
		if tag == "" {
			tag = " "
		}
		e.Recipients = append(e.Recipients, ctlfile.State{Offset: int64(sc.number(offset)), Tag: ctlfile.Tag(tag[0])})
	}
	sc.step(e)
}

// store reads: waits, works, done 7 [owes], fails 7 REASON, refuses 7 REASON, full 7,
// gone 7, down REASON, back.
func (sc *scenario) store(words []string) {
	var op scheduler.Op
	if len(words) > 1 && words[0] != "down" {
		op = sc.ops[scheduler.MessageID(sc.number(words[1]))]
	}
	switch words[0] {
	case "waits":
		sc.writesSucceed = false
	case "works":
		sc.writesSucceed = true
	case "done":
		sc.step(scheduler.Done{Op: op, Owes: len(words) > 2 && words[2] == "owes"})
	case "sends": // a Resubmit, but cannot mark these offsets
		sc.step(scheduler.Done{Op: op, Unmarked: sc.sentMarks(words[2:])})
	case "sends-only":
		sc.step(scheduler.Failed{Op: op, Reason: "not the others", Unmarked: sc.sentMarks(words[2:])})
	case "fails":
		sc.step(scheduler.Failed{Op: op, Reason: strings.Join(words[2:], " ")})
	case "refuses":
		op = sc.moveOps[scheduler.MessageID(sc.number(words[1]))]
		sc.step(scheduler.Failed{Op: op, Reason: strings.Join(words[2:], " ")})
	case "full":
		sc.step(scheduler.Failed{Op: op, Reason: "no space left on device", NoRoom: true})
	case "broken":
		sc.step(scheduler.Failed{Op: op, Reason: "read-only file system", SpoolDown: true})
	case "down":
		sc.step(scheduler.Failed{Reason: strings.Join(words[1:], " "), SpoolDown: true})
	case "gone":
		sc.step(scheduler.Failed{Op: op, Reason: "no such file", Missing: true})
	case "back":
		sc.step(scheduler.SpoolBack{})
	default:
		sc.fatalf("unknown word %q", words[0])
	}
}

// sentMarks are the outcomes of recipients at these offsets that were sent elsewhere.
func (sc *scenario) sentMarks(offsets []string) (marks []ctlfile.Mark) {
	for _, o := range offsets {
		marks = append(marks, ctlfile.Mark{Offset: int64(sc.number(o)), Tag: ctlfile.Delivered})
	}
	return marks
}

// order reads: kill 7, expire 7-9 smtp/host, kill 7 smtp/host smtp/other,
// reroute 7 smtp/host to uucp/other, kill 7 only 100 300. After "dry" it only counts.
func (sc *scenario) order(words []string) {
	e := scheduler.Ordered{}
	if words[0] == "dry" {
		e.DryRun, words = true, words[1:]
	}
	if e.Verb = view.Verb(strings.ToUpper(words[0])); !e.Verb.IsAboutMail() {
		sc.fatalf("unknown order %q", words[0])
	}
	if n := len(words); n > 2 && words[n-2] == "to" {
		e.To.Channel, e.To.Host, _ = strings.Cut(words[n-1], "/")
		words = words[:n-2]
	}
	if i := slices.Index(words, "only"); i > 0 {
		e.Only = map[scheduler.MessageID][]int64{}
		for _, offset := range words[i+1:] {
			id := scheduler.MessageID(sc.number(words[1]))
			e.Only[id] = append(e.Only[id], int64(sc.number(offset)))
		}
		words = words[:i]
	}
	for _, id := range sc.numbers(words[1]) {
		target := scheduler.Target{Message: scheduler.MessageID(sc.number(id))}
		for _, place := range words[2:] {
			target.Channel, target.Host, _ = strings.Cut(place, "/")
			e.Targets = append(e.Targets, target)
		}
		if len(words) == 2 {
			e.Targets = append(e.Targets, target)
		}
	}
	sc.step(e)
}

// allow reads: sessions smtp/host 3 [for 24s], site smtp/site 3 [for 24s], or rate
// smtp/host 500 [for 24s].
func (sc *scenario) allow(words []string) {
	e := scheduler.Allowance{Until: sc.now.Add(100 * 365 * 24 * time.Hour)}
	e.Limit.Channel, e.Limit.Name, _ = strings.Cut(words[1], "/")
	switch n := sc.number(words[2]); words[0] {
	case "sessions":
		e.Limit.Setting, e.Sessions = "clustermax", n
	case "site":
		e.Limit.Setting, e.Sessions = "clustersitemax", n
	case "rate":
		e.Limit.Setting, e.Sessions = "clusterrate", n
	default:
		sc.fatalf("unknown word %q", words[0])
	}
	if len(words) > 4 {
		d, err := time.ParseDuration(words[4])
		if err != nil {
			sc.fatalf("%v", err)
		}
		e.Until = sc.now.Add(d)
	}
	sc.step(e)
}

// dead reads: smtp/host for 10m by mx2 REASON.
func (sc *scenario) dead(words []string) {
	e := scheduler.DestinationDead{Until: sc.now.Add(sc.span(words[2])), Node: words[4], Reason: strings.Join(words[5:], " ")}
	e.Channel, e.Host, _ = strings.Cut(words[0], "/")
	sc.step(e)
}

func (sc *scenario) span(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		sc.fatalf("%v", err)
	}
	return d
}

func (sc *scenario) agent(word string) scheduler.AgentID {
	return scheduler.AgentID(sc.number(strings.TrimPrefix(word, "A")))
}

// numbers reads one number, or a range such as 7-12.
func (sc *scenario) numbers(word string) []string {
	first, last, isRow := strings.Cut(word, "-")
	if !isRow {
		return []string{word}
	}
	var row []string
	for n := sc.number(first); n <= sc.number(last); n++ {
		row = append(row, strconv.Itoa(n))
	}
	return row
}

func (sc *scenario) number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		sc.fatalf("%v", err)
	}
	return n
}
