package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// The simulation's configurations, and what the cluster allows it.

// config makes clauses with small limits, so that each limit is reached, and
// with everything that a reload may change for the mail and the agents that are
// there.
func (h *harness) config() *rule.Config {
	set := func(name string, apply func(*rule.Params)) rule.Setting {
		return rule.Setting{Name: name, Value: fmt.Sprint(h.rand.IntN(3)), Apply: apply}
	}
	n := func(most int) int { return 1 + h.rand.IntN(most) }
	ring, thr, over, sessions, quantum := n(4), n(3), h.rand.IntN(4), n(3), n(3)
	channel, wakeup := n(6), h.rand.IntN(2) == 0
	setWindow, setTurns, setRates, setCluster := h.windowSettings(), h.turnSettings(), h.rateSettings(), h.clusterSettings()
	queueOnly, etrnOnly, ageOrder := h.chance(20), !h.chance(30), h.chance(30)
	command, marking, expiry := []string{"smtp", "-c", "$channel"}, ta.SchedulerMarks, 3*time.Hour
	if h.chance(30) {
		command, marking, expiry = []string{"smtp", "-c", "$host"}, ta.AgentMarks, time.Hour
	}
	return &rule.Config{
		Events:         true,
		Cluster:        true,
		ReportInterval: time.Duration(h.rand.IntN(2)) * 5 * time.Minute,
		Defaults: rule.Params{
			ReportTimes:  []time.Duration{time.Minute, time.Hour, 20 * time.Minute},
			AgentTimeout: 10 * time.Minute,
			Interval:     time.Minute, Expiry: expiry, Expiry2: time.Hour, Retries: []int{1, 2, 3}, Jitter: 10,
			MaxThr: 1, Sessions: 1, Quantum: 5, UID: -1, GID: -1,
		},
		Clauses: []rule.Clause{
			{Channel: "*", Host: "*", Settings: []rule.Setting{set("share", setTurns)}},
			{Channel: "smtp", Host: "slow*", Settings: []rule.Setting{
				set("command", func(p *rule.Params) { p.Command, p.QueueOnly, p.AgeOrder = command, queueOnly, ageOrder }),
				set("maxring", func(p *rule.Params) { p.MaxRing, p.MaxThr, p.Overfeed, p.Quantum = ring, thr, over, quantum }),
				set("initialconcurrency", setWindow),
				set("rate", setRates),
				set("wakeuprestartonly", func(p *rule.Params) { p.WakeupRestartOnly = wakeup }),
			}},
			{Channel: "smtp", Host: "*", Settings: []rule.Setting{
				set("command", func(p *rule.Params) { p.Command = []string{"smtp", "${sessions}"} }),
				set("sessions", func(p *rule.Params) { p.Sessions, p.MaxThr, p.MaxChannel = sessions, thr, channel }),
				set("initialconcurrency", setWindow),
				set("rate", setRates),
				set("clustermax", setCluster),
			}},
			{Channel: "local", Host: "*", Settings: []rule.Setting{
				set("command", func(p *rule.Params) { p.Command = []string{"mailbox", "$host"} }),
				set("marking", func(p *rule.Params) { p.Marking, p.AgeOrder = marking, true }),
			}},
			{Channel: "etrn", Host: "*", Settings: []rule.Setting{
				set("command", func(p *rule.Params) { p.Command = []string{"smtp"} }),
				set("queueonly", func(p *rule.Params) { p.QueueOnly = etrnOnly }),
			}},
		},
		Replies:   h.replies(),
		Shares:    map[string]int{"x": n(3), "c@y": n(3)},
		MaxAgents: n(6), ForkRate: n(3), Frozen: h.chance(3),
	}
}

// windowSettings returns windows of all kinds, constant ones included.
func (h *harness) windowSettings() func(*rule.Params) {
	feedback := func() limit.Feedback {
		return limit.Feedback{Amount: float64(h.rand.IntN(5)) / 4, Per: limit.Per(h.rand.IntN(3))}
	}
	initial, up, down := max(0, h.rand.IntN(5)-1), feedback(), feedback()
	cohorts, maxThr := float64(h.rand.IntN(8))/4, 1+h.rand.IntN(5)
	return func(p *rule.Params) {
		p.Window.Initial, p.Window.Positive, p.Window.Negative, p.Window.CohortLimit = initial, up, down, cohorts
		if initial > 0 {
			p.MaxThr = maxThr
		}
	}
}

// rateSettings returns no rates, or some of each kind.
func (h *harness) rateSettings() func(*rule.Params) {
	one := func() limit.Rate {
		if h.chance(60) {
			return limit.Rate{}
		}
		return limit.Rate{Recipients: 1 + h.rand.IntN(20), Span: time.Minute}
	}
	thread, channel, site, burst := one(), one(), one(), 1+h.rand.IntN(4)
	siteMax := max(0, h.rand.IntN(5)-2)
	return func(p *rule.Params) {
		p.Rates.Thread, p.Rates.Channel, p.Rates.Burst = thread, channel, burst
		p.SiteMax, p.Rates.Site = siteMax, site
	}
}

// replies returns no reply rules, or some of all kinds.
func (h *harness) replies() []rule.ReplyRule {
	var rules []rule.ReplyRule
	for i := range h.rand.IntN(4) {
		verb := rule.ReplyVerb(1 + h.rand.IntN(4))
		word := []string{"4.4.1", "said"}[h.rand.IntN(2)]
		rules = append(rules, rule.ReplyRule{
			Channel: "*", Host: simulationHosts[h.rand.IntN(len(simulationHosts))], Expression: word, Action: fmt.Sprint(verb),
			Match: func(text string) bool { return strings.Contains(text, word) },
			Verb:  verb, Span: time.Duration(1+h.rand.IntN(4000)) * time.Second,
			Rate: limit.Rate{Recipients: 1 + h.rand.IntN(5), Span: time.Minute}, File: "f", Line: i + 1,
		})
	}
	return rules
}

// clusterSettings returns limits of the cluster, or none.
func (h *harness) clusterSettings() func(*rule.Params) {
	sessions, rate := h.rand.IntN(4), limit.Rate{Recipients: h.rand.IntN(100), Span: time.Minute}
	if h.rand.IntN(2) == 0 {
		rate.Recipients = 0
	}
	site := max(0, h.rand.IntN(6)-2)
	return func(p *rule.Params) { p.Cluster.Max, p.Cluster.SiteMax, p.Cluster.Rate = sessions, site, rate }
}

// allow plays the store of the cluster: it allows what is wanted, or less.
func (h *harness) allow() {
	for i := range h.wants {
		w := &h.wants[i]
		if h.faultless {
			if !w.granted {
				w.granted = true
				h.step(Allowance{Limit: w.demand.Limit, Sessions: w.demand.Want, Until: time.Unix(1<<40, 0)})
			}
			continue
		}
		h.step(Allowance{Limit: w.demand.Limit, Sessions: h.rand.IntN(w.demand.Want + 2), Until: h.now.Add(time.Duration(h.rand.IntN(30_000)) * time.Millisecond)})
	}
}

// tell plays the other nodes of the cluster, which know of dead destinations.
func (h *harness) tell() {
	if !h.chance(10) {
		return
	}
	h.step(DestinationDead{
		Channel: "smtp", Host: simulationHosts[h.rand.IntN(len(simulationHosts))],
		Until: h.now.Add(time.Duration(h.rand.IntN(3600)) * time.Second), Node: "other", Reason: "no route",
	})
}

// noteWant keeps the demands in the order in which they were first said.
func (h *harness) noteWant(w Want) {
	i := slices.IndexFunc(h.wants, func(o simWant) bool { return o.demand.Limit == w.Limit })
	if i < 0 {
		h.wants = append(h.wants, simWant{demand: w})
		return
	}
	h.wants[i] = simWant{demand: w}
}

// simWant is a demand, and whether all of it was granted without an end.
type simWant struct {
	demand  Want
	granted bool
}

// turnSettings returns shares, preemption and sessions of a message of all
// kinds.
func (h *harness) turnSettings() func(*rule.Params) {
	cost, discount, loan, least := h.rand.IntN(4), 50*h.rand.IntN(3), h.rand.IntN(4), h.rand.IntN(3)
	sessions, scale := h.rand.IntN(4), h.rand.IntN(4)
	shareScale := h.rand.IntN(4)
	kind := []string{"source", "sender", "senderdomain", "none"}[h.rand.IntN(4)]
	return func(p *rule.Params) {
		p.Preemption.SlotCost, p.Preemption.SlotDiscount, p.Preemption.SlotLoan, p.Preemption.MinSlots = cost, discount, loan, least
		p.MsgSessions, p.MsgScale, p.ShareScale, p.Share = sessions, scale, shareScale, kind
	}
}
