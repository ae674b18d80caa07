package scheduler

import (
	"slices"
	"time"
)

// Explanation says how a channel and host is treated, and what its mail waits
// for. It can be had for any, mail or not.
type Explanation struct {
	Channel, Host string
	Held          bool
	Thread        *ThreadView // nil: there is no mail
	Ring          *RingView   // nil: there is no ring that mail would join
	// Clauses that match, in order. They belong to the Config.
	Clauses []*Clause
	// Settings in force, in the order in which the clauses first name them; of
	// one that is set twice, the later. What is not here has its default.
	Settings []Setting
	Params   *Params // in force
	Limits   []Limit
	// Wait is why due mail is not fed now, or that the thread is held.
	Wait Wait
	// Next is what happens next without anybody's doing, and when; zero where
	// the thread waits for others, or for nothing.
	Next   Upcoming
	NextAt time.Time
}

// Upcoming is the next thing that comes with time.
type Upcoming string

const (
	NothingNext Upcoming = ""
	RetryNext   Upcoming = "retry"             // a vertex is due again
	ResumeNext  Upcoming = "end of suspension" // of the thread
	ExpiryNext  Upcoming = "expiry"            // of the oldest message
	StartNext   Upcoming = "start of an agent" // after starts that failed, or for the fork rate
	ProbeNext   Upcoming = "probe of the spool"
)

// Limit is one of the limits on a thread and how far it is used.
type Limit struct {
	Name   string // maxta, maxchannel, maxring, maxthr
	Used   int    // processes of maxta, busy sessions of the others
	Most   int    // 0: none
	Blocks bool   // due mail is not fed because of it
}

// Explain says how a channel and host, in lower case, is treated.
func (s *Scheduler) Explain(channel, host string) *Explanation {
	key := threadKey{channel, host}
	e := &Explanation{Channel: channel, Host: host, Held: s.held[key]}
	e.Clauses = match(s.config.Clauses, channel, host)
	e.Settings = inForce(e.Clauses)
	e.Params = fold(s.config.Defaults, e.Clauses)
	name, _ := s.ringName(key, e.Clauses, e.Params)
	r, t := s.rings[name], s.threads[key]
	if t != nil {
		r = t.ring
		e.Thread = s.viewThread(t)
		e.Wait = e.Thread.Wait
		e.Next, e.NextAt = s.upcoming(t)
	}
	if r != nil {
		e.Ring = s.viewRing(r)
	}
	e.Limits = s.limits(e.Params, channel, r, t)
	return e
}

// inForce returns the settings that matched clauses leave in force. nice and
// priority are one.
func inForce(clauses []*Clause) []Setting {
	var settings []Setting
	for _, c := range clauses {
		for _, set := range c.Settings {
			i := slices.IndexFunc(settings, func(before Setting) bool { return sameField(before.Name, set.Name) })
			if i < 0 {
				settings = append(settings, set)
			} else {
				settings[i] = set
			}
		}
	}
	return settings
}

func sameField(a, b string) bool {
	isPriority := func(name string) bool { return name == "nice" || name == "priority" }
	return a == b || isPriority(a) && isPriority(b)
}

// limits are those of a thread that may not be there, in a ring that may not.
func (s *Scheduler) limits(p *Params, channel string, r *ring, t *thread) []Limit {
	would := &ring{params: p}
	busy := Limit{Name: "maxchannel", Most: s.maxChannel(would)}
	if c := s.channels[channel]; c != nil {
		busy.Used = c.busy
	}
	limits := []Limit{
		{Name: "maxta", Used: len(s.agents), Most: s.maxTA(would)},
		busy,
		{Name: "maxring", Most: s.maxRing(would)},
		{Name: "maxthr", Most: max(1, p.MaxThr)},
	}
	if r != nil {
		limits[2].Used = r.busy
	}
	if t != nil {
		b := s.blocksOf(t)
		limits[0].Blocks, limits[1].Blocks, limits[2].Blocks, limits[3].Blocks = b.processes, b.channel, b.ring, b.thread
		limits[3].Used, limits[3].Most = t.busy, t.window()
	}
	return limits
}

// upcoming returns the next thing that time brings to a thread.
func (s *Scheduler) upcoming(t *thread) (Upcoming, time.Time) {
	if t.held {
		return NothingNext, time.Time{}
	}
	next, at := NothingNext, never
	consider := func(what Upcoming, when instant) {
		if when < at {
			next, at = what, when
		}
	}
	retry := t.wakeTimes.earliest()
	if till := t.suspendedUntil; till != 0 && (t.states[due] > 0 || retry <= till) {
		consider(ResumeNext, till)
	} else {
		consider(RetryNext, retry)
	}
	if p := t.params; p.Expiry != 0 && t.vertices.len > 0 {
		primary, secondary := p.expiryOf(t.modTimes.earliest())
		if primary <= s.now {
			primary = secondary
		}
		if primary > s.now {
			consider(ExpiryNext, primary)
		}
	}
	switch s.waitOf(t) {
	case WaitStart:
		consider(StartNext, s.startFailures[t.ring.clause].until)
	case WaitForks:
		consider(StartNext, s.forks.next())
	case WaitSpool:
		consider(ProbeNext, s.store.next())
	}
	if at == never {
		return NothingNext, time.Time{}
	}
	return next, at.time()
}
