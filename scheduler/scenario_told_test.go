package scheduler_test

import (
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/config"
	"zsched/ta"
)

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
			c.Defaults.AgentTimeout, err = time.ParseDuration(value)
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
// errorto=a@b age=3h log=id obsoletes=id owner=7 path=A/7 owes released. Recipients
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
		case word == "released":
			m.Released = true
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
	said := ta.ParseLine([]byte(words[0] + "\t" + notary + "\t" + strings.Join(words[1:], " ")))
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

// store reads: waits, works, done 7, fails 7 REASON, refuses 7 REASON, full 7, gone 7, back.
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
	case "refuses":
		op = st.moves[scheduler.MessageID(st.number(words[1]))]
		st.step(scheduler.Failed{Op: op, Reason: strings.Join(words[2:], " ")})
	case "full":
		st.step(scheduler.Failed{Op: op, Reason: "no space left on device", SpoolDown: true})
	case "gone":
		st.step(scheduler.Failed{Op: op, Reason: "no such file", Missing: true})
	case "back":
		st.step(scheduler.SpoolBack{})
	default:
		st.fatalf("unknown word %q", words[0])
	}
}

// verbs are the words of an order.
var verbs = map[string]scheduler.Verb{
	"kill": scheduler.VerbKill, "expire": scheduler.VerbExpire, "retry": scheduler.VerbRetry,
	"hold": scheduler.VerbHold, "requeue": scheduler.VerbRequeue, "reroute": scheduler.VerbReroute,
}

// order reads: kill 7, expire 7-9 smtp/host, kill 7 smtp/host smtp/other,
// reroute 7 smtp/host to uucp/other; dry in front counts only.
func (st *stage) order(words []string) {
	e := scheduler.Ordered{Order: 1}
	if words[0] == "dry" {
		e.DryRun, words = true, words[1:]
	}
	verb, ok := verbs[words[0]]
	if !ok {
		st.fatalf("unknown order %q", words[0])
	}
	e.Verb = verb
	if n := len(words); n > 2 && words[n-2] == "to" {
		e.To.Channel, e.To.Host, _ = strings.Cut(words[n-1], "/")
		words = words[:n-2]
	}
	for _, id := range st.numbers(words[1]) {
		target := scheduler.Target{Message: scheduler.MessageID(st.number(id))}
		for _, place := range words[2:] {
			target.Channel, target.Host, _ = strings.Cut(place, "/")
			e.Targets = append(e.Targets, target)
		}
		if len(words) == 2 {
			e.Targets = append(e.Targets, target)
		}
	}
	st.step(e)
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
