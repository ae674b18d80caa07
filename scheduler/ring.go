package scheduler

import (
	"slices"
	"strconv"
	"strings"
)

// ring is the threads that can share agents: the same clauses matched them,
// on the same channel, and their command comes out the same.
type ring struct {
	key     string
	inOrder links[*ring] // Scheduler.order
	channel *channel
	clauses []*Clause // that matched
	clause  string    // key of the failing starts, shared by its rings
	params  *Params
	command []string // expanded
	// hostless says that the command names the host and job lines do not.
	hostless bool
	dropped  bool // out of Scheduler.order
	retired  bool // a reload left it no threads; its agents are let go

	id       uint64        // its place in the order of making, 1 and more
	members  list[*thread] // in the order of their seats
	vertices int           // its threads'

	example threadKey // of a thread that belongs or belonged to it
	// ready threads wait for a session in turn; spent ones have had their
	// quantum and wait for the next round.
	ready, spent list[*thread]
	round        uint32
	wants        int // sum of its threads'

	procs    int      // agents, idle ones too
	busy     int      // sessions
	expected int      // sessions that its agents are still to offer
	idle     []*agent // parked, youngest last
	free     []*agent // serving, with a session to give

	dirty        bool
	backoffIndex int32
	limitQueue   *limitQueue  // for a limit
	limitLinks   links[*ring] // waits
	// ticket tells since when it waits; 0: it has had what it last waited for.
	waitingSince uint64
}

// ringKey tells which threads can share agents. It holds everything that
// decides what a process of the ring is.
func ringKey(channel string, clauses []*Clause, command []string, p *Params) string {
	var b strings.Builder
	word := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	word(channel)
	for _, c := range clauses {
		word(c.Channel + "/" + c.Host)
	}
	b.WriteByte('|')
	for _, w := range command {
		word(w)
	}
	for _, n := range []int{p.UID, p.GID, p.Nice, p.Priority, max(1, p.Sessions), int(p.Marking)} {
		b.WriteByte(',')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// obtainRing finds or makes the ring of a thread and returns it with the
// parameters in force. The ring is nil where no clause gives a command.
func (q *queue) obtainRing(key threadKey) (*ring, *Params) {
	clauses := match(q.config.Clauses, key.channel, key.host)
	if r := q.obtainChannel(key.channel).latest; r != nil && slices.Equal(r.clauses, clauses) {
		return r, r.params
	}
	params := fold(q.config.Defaults, clauses)
	if len(params.Command) == 0 {
		return nil, params
	}
	name, command := q.ringName(key, clauses, params)
	r := q.rings[name]
	if r == nil {
		r = &ring{
			key:     name,
			channel: q.obtainChannel(key.channel),
			command: command,
			example: key,
		}
		r.ready.of = func(t *thread) *links[*thread] { return &t.turnLinks }
		r.spent.of = r.ready.of
		r.members.of = memberLinksOf
		q.lastRing++
		r.id = q.lastRing
		q.rings[name] = r
		q.order.append(r)
	}
	if r.params == nil || !slices.Equal(r.clauses, clauses) {
		r.clauses = clauses
		r.clause = clauseKey(clauses)
		r.params = params
		r.hostless = namesHost(params.Command)
	}
	if !slices.ContainsFunc(params.Command, namesHostIn) {
		r.channel.latest = r
	}
	return r, r.params
}

// ringName returns the key of the ring that a thread belongs to, and its
// command.
func (q *queue) ringName(key threadKey, clauses []*Clause, p *Params) (name string, command []string) {
	command = expand(p.Command, q.config.Env, key.channel, key.host, p.Sessions)
	return ringKey(key.channel, clauses, command, p), command
}

func memberLinksOf(t *thread) *links[*thread] { return &t.memberLinks }

// clauseKey names the clause that gave the command.
func clauseKey(clauses []*Clause) string {
	if c := commandClause(clauses); c != nil {
		return c.Channel + "/" + c.Host
	}
	return ""
}

func commandClause(clauses []*Clause) *Clause {
	for _, c := range slices.Backward(clauses) {
		if c.sets("command") {
			return c
		}
	}
	return nil
}

func (q *queue) dropRingWhenEmpty(r *ring) {
	if r.members.len > 0 || r.procs > 0 || r.dropped {
		return
	}
	for _, w := range q.walks {
		w.ringLeaves(r)
	}
	r.dropped = true
	q.order.remove(r)
	r.dequeue()
	q.backoffs.remove(r)
	if q.rings[r.key] == r {
		delete(q.rings, r.key)
	}
	if r.channel.latest == r {
		r.channel.latest = nil
	}
}

// enlist puts a thread that wants sessions in line.
func (r *ring) enlist(t *thread) {
	if t.round != r.round {
		t.round, t.picks = r.round, 0
	}
	t.turnList = &r.ready
	if t.picks >= t.params.Quantum {
		t.turnList = &r.spent
	}
	t.turnList.append(t)
}

// delist takes a thread out of the line it stands in, if it does.
func (t *thread) delist() {
	if t.turnList != nil {
		t.turnList.remove(t)
		t.turnList = nil
	}
}

// turn returns the thread whose turn it is, nil when none wants a session.
func (r *ring) nextThread() *thread {
	if r.ready.head == nil {
		return r.spent.head
	}
	return r.ready.head
}

// newRound begins when a session goes to a thread that has had its quantum,
// and no sooner: a session at work must not take its thread's next quantum
// for one that others wait for.
func (r *ring) newRound() {
	r.round++
	for t := r.spent.head; t != nil; t = r.spent.head {
		t.delist()
		r.enlist(t)
	}
}

// reunite finds a thread that was empty for a while the idle agent that
// served it last: its connection may still be open.
func (r *ring) rebindAgent(t *thread) {
	for _, a := range slices.Backward(r.idle) {
		if a.thread != nil && a.thread.key == t.key {
			t.lastAgent, a.thread = a, t
			return
		}
	}
}

// othersWait reports whether another thread of the ring wants a session. One
// that has had its quantum counts too: in the next round it comes first.
func (r *ring) othersWait(t *thread) bool {
	return r.ready.hasOther(t) || r.spent.hasOther(t)
}

// limits of the ring; 0 means none.

func (d *dispatch) maxTA(r *ring) int {
	if r.params.MaxTA > 0 {
		return r.params.MaxTA
	}
	return d.config.MaxAgents
}

func (d *dispatch) maxChannel(r *ring) int {
	if r.params.MaxChannel > 0 {
		return r.params.MaxChannel
	}
	return d.maxTA(r)
}

func (d *dispatch) maxRing(r *ring) int {
	if r.params.MaxRing > 0 {
		return r.params.MaxRing
	}
	return d.maxTA(r)
}

// below reports whether n is under a limit of which 0 means none.
func below(n, limit int) bool { return limit <= 0 || n < limit }
