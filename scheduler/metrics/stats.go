package metrics

// Counters of what passes through the loop.

import (
	"errors"
	"maps"
	"path"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// Stats counts what passes through the loop: it is the daemon's Observer. It
// belongs to the loop's goroutine.
type Stats struct {
	values
	waiting map[scheduler.MessageID]time.Time // arrivals that are not fed yet
	unready map[scheduler.AgentID]struct{}    // agents that have not said #hungry yet
	leaving map[scheduler.AgentID]departure   // agents that were asked to exit, or killed
}

// departure is how the scheduler made an agent leave.
type departure uint8

const (
	closed departure = iota + 1
	killed
)

// values are the counters themselves.
type values struct {
	turns       histogram         // length of the loop's turns
	longestTurn time.Duration     // since the start
	feeds       histogram         // from arrival to the first job line
	spoolErrors map[string]uint64 // by what was being done
	refused     map[spool.Refusal]uint64
	// startsFailed counts agents that could not be started, and those that ended
	// before their first #hungry.
	startsFailed uint64
	// deaths counts agents that ended later without having been asked to, by how:
	// exit, signal, or killed (by the scheduler, because they wrote nothing or
	// too much).
	deaths  map[string]uint64
	results map[result]uint64        // reports of agents
	ages    [len(outcomes)]histogram // of messages, at the outcomes of recipients

	sweptAt    time.Time // when the last sweep ended
	answeredAt time.Time // when the spool last answered
	// spoolDown says why nothing can be written to the spool; "": it can.
	spoolDown string
}

// maxWaiting bounds the arrivals whose first job line is awaited. While that many
// wait, further arrivals are not measured.
const maxWaiting = 4096

// Upper bounds of the buckets, in seconds.
var (
	turnBounds = []float64{.0001, .0003, .001, .002, .005, .01, .02, .05, .1, .5, 1}
	feedBounds = []float64{.0005, .001, .002, .005, .01, .05, .1, .5, 1, 5, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600}
	ageBounds  = []float64{.1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600}
)

var _ daemon.Observer = (*Stats)(nil)

// NewStats returns counters at zero.
func NewStats() *Stats {
	now := time.Now()
	s := &Stats{
		values: values{
			deaths:      make(map[string]uint64),
			results:     make(map[result]uint64),
			turns:       newHistogram(turnBounds),
			feeds:       newHistogram(feedBounds),
			spoolErrors: make(map[string]uint64),
			refused:     make(map[spool.Refusal]uint64),
			sweptAt:     now,
			answeredAt:  now,
		},
		waiting: make(map[scheduler.MessageID]time.Time),
		unready: make(map[scheduler.AgentID]struct{}),
		leaving: make(map[scheduler.AgentID]departure),
	}
	for i := range s.ages {
		s.ages[i] = newHistogram(ageBounds)
	}
	return s
}

// Event counts an event: daemon.Observer.
func (s *Stats) Event(now time.Time, e scheduler.Event) {
	switch e := e.(type) {
	case scheduler.Arrived:
		if len(s.waiting) < maxWaiting && len(e.Message.Recipients) > 0 {
			s.waiting[e.Message.ID] = now
		}
	case scheduler.AgentFailed:
		delete(s.unready, e.Agent)
		s.startsFailed++
	case scheduler.AgentHungry:
		if len(s.unready) > 0 {
			delete(s.unready, e.Agent)
		}
	case scheduler.AgentReported:
		s.results[result{outcomeOf(e.Report.Status), parseStatusCode(e.Report.Notary.Code())}]++
	case scheduler.AgentExited:
		s.exited(e)
	case scheduler.Failed:
		if e.SpoolDown {
			s.spoolDown = e.Reason // until a probe succeeds
		}
	case scheduler.SpoolBack:
		s.spoolDown = ""
	}
}

// Action counts an action: daemon.Observer.
func (s *Stats) Action(now time.Time, a scheduler.Action) {
	switch a := a.(type) {
	case scheduler.Feed:
		if len(s.waiting) > 0 {
			s.fed(a.Job.Path, now)
		}
	case scheduler.Account:
		s.ages[outcomeOfState(a.State)].observe(max(0, now.Sub(a.ModifiedAt).Seconds()))
	case scheduler.Complete:
		delete(s.waiting, a.Message)
	case scheduler.Start:
		s.unready[a.Agent] = struct{}{}
	case scheduler.Close:
		s.leaving[a.Agent] = closed
	case scheduler.Kill:
		if s.leaving[a.Agent] == 0 {
			s.leaving[a.Agent] = killed
		}
	}
}

// exited counts an agent that has ended although it was not asked to. One that
// was asked to exit before its first #hungry does not count as a failed start.
func (s *Stats) exited(e scheduler.AgentExited) {
	how := s.leaving[e.Agent]
	_, unready := s.unready[e.Agent]
	delete(s.leaving, e.Agent)
	delete(s.unready, e.Agent)
	switch {
	case how == closed:
	case unready:
		s.startsFailed++
	case how == killed:
		s.deaths["killed"]++
	case strings.HasPrefix(e.Status, "signal"):
		s.deaths["signal"]++
	default:
		s.deaths["exit"]++
	}
}

// fed measures the time to a message's first job line.
func (s *Stats) fed(file string, now time.Time) {
	n, _ := ctlfile.Number(path.Base(file))
	id := scheduler.MessageID(n)
	if at, ok := s.waiting[id]; ok {
		s.feeds.observe(now.Sub(at).Seconds())
		delete(s.waiting, id)
	}
}

// Result counts a result of the spool: daemon.Observer.
func (s *Stats) Result(now time.Time, r spool.Result) {
	s.answeredAt = now
	switch r := r.(type) {
	case spool.Refused:
		s.refused[r.Why]++
	case spool.Marked:
		s.spoolError("mark", r.Err)
	case spool.Reread:
		s.spoolError("read", r.Err)
	case spool.Finished:
		s.spoolError("finish", r.Err)
	case spool.Reported:
		s.spoolError("report", r.Err)
	case spool.Moved:
		s.spoolError("hold", r.Err)
	case spool.Released:
		s.spoolError("release", r.Err)
	case spool.Recorded:
		s.spoolError("hold", r.Err)
	case spool.Resubmitted:
		s.spoolError("resubmit", r.Err)
	case spool.Swept:
		s.sweptAt = now
	case spool.Warning:
		s.spoolErrors["other"]++
	}
}

// spoolError counts an error. A file that still has open recipients is not one.
func (s *Stats) spoolError(doing string, err error) {
	if err != nil && !errors.Is(err, spool.ErrOpen) {
		s.spoolErrors[doing]++
	}
}

// Turn counts a turn of the loop: daemon.Observer.
func (s *Stats) Turn(took time.Duration) {
	s.turns.observe(took.Seconds())
	s.longestTurn = max(s.longestTurn, took)
}

// snapshot returns a copy that the loop does not change. It drops messages that
// left the queue without being fed.
func (s *Stats) snapshot(core *scheduler.Scheduler) values {
	for id := range s.waiting {
		if core.Known(id) == scheduler.Absent {
			delete(s.waiting, id)
		}
	}
	v := s.values
	v.turns, v.feeds = s.turns.copy(), s.feeds.copy()
	v.spoolErrors, v.refused = maps.Clone(s.spoolErrors), maps.Clone(s.refused)
	v.deaths, v.results = maps.Clone(s.deaths), maps.Clone(s.results)
	for i := range v.ages {
		v.ages[i] = s.ages[i].copy()
	}
	return v
}
