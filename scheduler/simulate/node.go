package simulate

// A node: one core with a model of what is around it.

import (
	"slices"
	"strconv"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// Node is one core with a model of what is around it: a spool that never fails,
// and agents that pass each job line to a server.
type Node struct {
	*Clock
	server Server
	core   *scheduler.Scheduler
	config rule.Config

	messages map[scheduler.MessageID]*Message
	last     scheduler.MessageID // the last that was assigned
	starting time.Duration       // when the agent that was started last is ready
	tickAt   time.Duration       // of the Tick that is planned; 0: none is

	// Fed and Ended are called when a job line begins and ends. They may be nil.
	Fed, Ended func(*Delivery)
	// Wanted is called when the core says what it could use of a limit of the
	// cluster. It may be nil.
	Wanted func(scheduler.Want)
	// Failure is what agents report of a delivery that is not ok: that the destination
	// failed, or that this recipient is deferred.
	Failure ta.Status
}

// Message is a message of the load.
type Message struct {
	ID        scheduler.MessageID
	Sender    string
	ArrivedAt time.Duration
	FedAt     time.Duration // its first job line; 0: none yet
	Sessions  int           // busy with it
	offsets   map[string][]int64
}

// Delivery is one job line: the recipients of a message for one host.
type Delivery struct {
	Node     *Node
	Message  *Message
	Host     string
	OK       bool // of an ended one: delivered, or else the destination failed
	agent    scheduler.AgentID
	finished bool
}

// Server is called when a client has connected for a delivery. It calls
// Delivery.End when the delivery is over.
type Server func(*Delivery)

const (
	// channel is the channel of all mail.
	channel = "smtp"
	// startTime is how long the start of an agent takes. Agents start one after
	// the other.
	startTime = 10 * time.Millisecond
	// connectTime is the time from a job line to the connection of its client.
	connectTime = 10 * time.Millisecond
	// noRetry is an interval longer than any simulation.
	noRetry = 365 * 24 * time.Hour
)

// defaults are the parameters of scheduler.cf(5), except that no mail is retried.
func defaults() rule.Params {
	byN := limit.Feedback{Amount: 1, Per: limit.PerN}
	return rule.Params{
		Interval: noRetry, Retries: []int{1}, Jitter: 10, UID: -1, GID: -1, Marking: ta.AgentMarks,
		MaxThr: 1, Sessions: 1, Quantum: 50,
		Window:      limit.WindowRules{Positive: byN, Negative: byN, CohortLimit: 1},
		Preemption:  rule.Preemption{SlotCost: 5, SlotDiscount: 50, SlotLoan: 3, MinSlots: 3},
		MsgSessions: 20, MsgScale: 10, Share: "senderdomain",
	}
}

// NewNode returns a node with an empty queue. The weights of senders may be nil.
func NewNode(c *Clock, p rule.Params, weights map[string]int, server Server) *Node {
	n := &Node{Clock: c, server: server, messages: make(map[scheduler.MessageID]*Message), Failure: ta.DeferAll}
	command := []string{"smtp", "--sessions", "${sessions}"}
	n.config = rule.Config{
		Defaults: p, Shares: weights, Cluster: p.Cluster.Max > 0,
		Clauses: []rule.Clause{{Channel: channel, Host: "*", Settings: []rule.Setting{
			{Name: "command", Apply: func(p *rule.Params) { p.Command = command }},
		}}},
	}
	config := n.config
	n.core = scheduler.New(&config, c.newRand())
	return n
}

// SetRules gives the node reply rules.
func (n *Node) SetRules(rules ...rule.ReplyRule) {
	n.config.Replies = rules
	n.Reload(n.config.Defaults, n.config.Shares)
}

// Reload gives the node a new configuration with these parameters and weights.
func (n *Node) Reload(p rule.Params, weights map[string]int) {
	n.config.Defaults, n.config.Shares = p, weights
	n.config.Clauses = slices.Clone(n.config.Clauses) // the core keeps what follows from a clause
	config := n.config
	n.step(scheduler.Reloaded{Config: &config})
}

// Submit queues a message with one recipient at each named host.
// A host that is named twice has two recipients, which are one job line.
func (n *Node) Submit(sender string, hosts ...string) *Message {
	n.last++
	m := &Message{ID: n.last, Sender: sender, ArrivedAt: n.now, offsets: make(map[string][]int64, len(hosts))}
	n.messages[m.ID] = m
	at := beginning.Add(n.now)
	arrived := scheduler.Message{
		ID: m.ID, Path: strconv.FormatUint(uint64(m.ID), 10),
		Sender: sender, ErrorTo: sender, ModifiedAt: at, ChangedAt: at,
	}
	for i, host := range hosts {
		offset := int64(100 * (i + 1))
		m.offsets[host] = append(m.offsets[host], offset)
		arrived.Recipients = append(arrived.Recipients, ctlfile.OpenRecipient{Offset: offset, Channel: channel, Host: host})
	}
	n.step(scheduler.Arrived{Message: arrived})
	return m
}

// Queued returns the number of messages in the queue.
func (n *Node) Queued() int { return n.core.Counts().Messages }

// Window returns the window of a host; 0 if there is no mail for it.
func (n *Node) Window(host string) int {
	t := n.core.Thread(channel, host)
	if t == nil {
		return 0
	}
	return t.Window
}

// End ends a delivery. If it is not ok, the agent reports Node.Failure.
func (d *Delivery) End(ok bool) {
	if ok {
		d.report(ta.OK3, "")
		return
	}
	d.report(d.Node.Failure, "")
}

// Defer ends a delivery that the server has answered with a temporary failure.
func (d *Delivery) Defer(reply string) { d.report(ta.Deferred, reply) }

func (d *Delivery) report(status ta.Status, text string) {
	if d.finished {
		panic("simulate: a delivery ends twice")
	}
	n := d.Node
	d.OK, d.finished = status == ta.OK3, true
	d.Message.Sessions--
	for _, offset := range d.Message.offsets[d.Host] {
		n.step(scheduler.AgentReported{Agent: d.agent, Report: ta.Report{Message: uint64(d.Message.ID), Offset: offset, Status: status, Text: text}})
		if status == ta.DeferAll {
			break // it applies to all recipients
		}
	}
	if n.Ended != nil {
		n.Ended(d)
	}
	n.step(scheduler.AgentSaid{Agent: d.agent, Word: scheduler.Hungry})
}

// step passes an event to the core, and performs the actions that it returns.
func (n *Node) step(e scheduler.Event) {
	for _, a := range n.core.Step(scheduler.At(beginning.Add(n.now)), e) {
		n.perform(a)
	}
	n.planTick()
}

// answer passes an event to the core at the current time, but after the current event.
func (n *Node) answer(e scheduler.Event) { n.After(0, func() { n.step(e) }) }

func (n *Node) perform(a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Start:
		n.start(a)
	case *scheduler.Feed:
		n.feed(a)
	case scheduler.Idle:
		n.answer(scheduler.AgentSaid{Agent: a.Agent, Word: scheduler.Hungry})
	case scheduler.Close:
		n.answer(scheduler.AgentExited{Agent: a.Agent, Status: "exit status 0"})
	case scheduler.Want:
		if n.Wanted != nil {
			n.Wanted(a)
		}
	case scheduler.Mark:
		n.answer(scheduler.Done{Op: a.Op})
	case scheduler.Report:
		n.answer(scheduler.Done{Op: a.Op})
	case *scheduler.Finish:
		delete(n.messages, a.Message)
		n.answer(scheduler.Done{Op: a.Op})
	case scheduler.Kill, scheduler.Read, scheduler.Hold, scheduler.Resubmit, scheduler.Probe:
		panic("simulate: the models do not expect this action")
	}
}

// start starts an agent. It asks for as many job lines as it has sessions.
func (n *Node) start(a scheduler.Start) {
	n.starting = max(n.starting, n.now) + startTime
	sessions, err := strconv.Atoi(a.Command[len(a.Command)-1])
	if err != nil {
		panic("simulate: the command does not end with the number of sessions")
	}
	n.After(n.starting-n.now, func() {
		n.step(scheduler.AgentStarted{Agent: a.Agent, PID: int(a.Agent)})
		for range sessions {
			n.step(scheduler.AgentSaid{Agent: a.Agent, Word: scheduler.Hungry})
		}
	})
}

func (n *Node) feed(a *scheduler.Feed) {
	id, err := strconv.ParseUint(a.Job.Path, 10, 64)
	m := n.messages[scheduler.MessageID(id)]
	if err != nil || m == nil {
		panic("simulate: an agent is fed a message that is not in the queue")
	}
	if m.FedAt == 0 {
		m.FedAt = n.now
	}
	m.Sessions++
	d := &Delivery{Node: n, Message: m, Host: a.Job.Host, agent: a.Agent}
	if n.Fed != nil {
		n.Fed(d)
	}
	n.After(connectTime, func() { n.server(d) })
}

// planTick plans a Tick for the time that the core wants.
func (n *Node) planTick() {
	next, ok := n.core.Next()
	if !ok {
		return
	}
	at := max(next.Sub(beginning), n.now)
	if n.tickAt != 0 && n.tickAt <= at {
		return
	}
	n.tickAt = at
	n.After(at-n.now, func() {
		if n.tickAt == at {
			n.tickAt = 0
			n.step(scheduler.Tick{})
		}
	})
}
