package simulate

import (
	"slices"
	"strings"
	"time"

	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// Shaping (rate, rateburst, reply rules): what a destination is fed compared with what it is
// allowed to be fed.

// The settings of the scene, and when the server gives the replies of its rules.
const (
	shapedRate  = 120 // recipients a minute
	shapedBurst = 20

	slowRate = 30 // recipients a minute
	slowAt   = 3 * time.Minute
	slowSpan = 5 * time.Minute

	suspendAt   = 10 * time.Minute
	suspendSpan = 2 * time.Minute

	shapingEnd = 15 * time.Minute
)

var shapingScene = Scene{
	Name:  "shaping",
	Title: "A rate, and two reply rules",
	Setting: "2000 messages wait for one host, with maxthr=40 rate=120/1m rateburst=20; a delivery takes about a second. " +
		"After three minutes the server answers one delivery with \"421 slow down\", and after ten minutes one with " +
		"\"421 blocked\". The rules are: reply smtp/* \"slow down\" rate 30/1m 5m, and reply smtp/* \"blocked\" suspend 2m. " +
		"The limit is the rate that is in force, and none during the suspension.",
	Reference: "scheduler.cf(5), Rates and REPLY RULES",
	Run: func(seed uint64) Result {
		r := runShaping(seed, shapedRate)
		fed, allowed := r.perPeriod()
		return Result{
			Figures: []Figure{
				atMost("most recipients beyond rate and burst, in any span", 0, r.excess(), 0),
				atLeast("part of the limit that is used with mail waiting", 3, r.used(), 0.98),
				unbounded("recipients fed in the first minute", 0, r.fedBetween(0, time.Minute)),
				atMost("recipients fed in the first minute of the lower rate", 0, r.fedBetween(r.slowed, r.slowed+time.Minute), slowRate+1),
				atMost("recipients fed during the suspension", 0, r.fedBetween(r.suspended, r.suspended+suspendSpan), 0),
				atMost("seconds from its end to the next feed", 3, (r.firstAfter(r.suspended+suspendSpan) - r.suspended - suspendSpan).Seconds(), 0),
			},
			Plots: []Plot{{
				Name: "shaping", Title: "What a host is fed, and what it may be fed", X: "minutes", XMax: shapingEnd.Minutes(),
				Panels: []Panel{
					{Title: "recipients in ten seconds", Y: "recipients", YMax: 50, Lines: []Line{fed, allowed}},
					{Title: "recipients since the beginning", Y: "recipients", YMax: 2000, Lines: r.sums()},
				},
			}},
		}
	},
}

// shapingRun is when the recipients of one destination were fed, and when the effects
// of the two rules began.
type shapingRun struct {
	fed               []time.Duration
	slowed, suspended time.Duration
}

// runShaping runs the scene with a rate, in recipients a minute.
func runShaping(seed uint64, rate int) *shapingRun {
	c := NewClock(seed)
	p := defaults()
	p.MaxThr, p.MaxRing, p.Overfeed = 40, 40, 0
	p.Rates.Thread, p.Rates.Burst = limit.Rate{Recipients: rate, Span: time.Minute}, shapedBurst
	r := new(shapingRun)
	n := NewNode(c, p, nil, func(d *Delivery) {
		c.After(c.between(900*time.Millisecond, 1100*time.Millisecond), func() {
			switch {
			case r.slowed == 0 && c.Now() >= slowAt:
				r.slowed = c.Now()
				d.Defer("421 slow down")
			case r.suspended == 0 && c.Now() >= suspendAt:
				r.suspended = c.Now()
				d.Defer("421 blocked")
			default:
				d.End(true)
			}
		})
	})
	n.SetRules(
		replyRule("slow down", "rate 30/1m 5m", rule.ReplyRule{Verb: rule.ReplyRate, Rate: limit.Rate{Recipients: slowRate, Span: time.Minute}, Span: slowSpan}),
		replyRule("blocked", "suspend 2m", rule.ReplyRule{Verb: rule.ReplySuspend, Span: suspendSpan}),
	)
	n.Fed = func(*Delivery) { r.fed = append(r.fed, c.Now()) }
	n.submitMany(2000, "a@example.org", "host")
	c.RunUntil(shapingEnd)
	return r
}

// replyRule completes a rule for replies that contain the words.
func replyRule(words, action string, r rule.ReplyRule) rule.ReplyRule {
	r.Channel, r.Host, r.Expression, r.Action = channel, "*", words, action
	r.Match = func(reply string) bool { return strings.Contains(reply, words) }
	return r
}

// rate is how many tokens a second the thread gets at a given time. It gets them during
// the suspension too, up to the burst.
func (r *shapingRun) rate(at time.Duration) float64 {
	if r.slowed == 0 || at < r.slowed || at >= r.slowed+slowSpan {
		return shapedRate / 60.0
	}
	return slowRate / 60.0
}

// limit is how many recipients a second may be fed at a given time.
func (r *shapingRun) limit(at time.Duration) float64 {
	if r.suspended != 0 && at >= r.suspended && at < r.suspended+suspendSpan {
		return 0
	}
	return r.rate(at)
}

// sum is the integral of a rate, in recipients a second, from the beginning until a
// time. The rate changes only at the times that are listed here.
func (r *shapingRun) sum(rate func(time.Duration) float64, until time.Duration) float64 {
	changes := []time.Duration{r.slowed, r.slowed + slowSpan, r.suspended, r.suspended + suspendSpan, until}
	sum, from := 0.0, time.Duration(0)
	for _, change := range changes {
		if to := min(change, until); to > from {
			sum += rate(from) * (to - from).Seconds()
			from = to
		}
	}
	return sum
}

// excess is the most recipients that were fed in any span of time beyond the tokens of
// that span and the burst.
func (r *shapingRun) excess() float64 {
	most, least := 0.0, 0.0 // least: feeds before the span, less the tokens before it
	for i, at := range r.fed {
		beyond := float64(i) - r.sum(r.rate, at)
		least = min(least, beyond)
		most = max(most, beyond+1-least-shapedBurst)
	}
	return most
}

// used is the part of the limit that was used.
func (r *shapingRun) used() float64 {
	return float64(len(r.fed)) / r.sum(r.limit, shapingEnd)
}

// fedBetween is how many recipients were fed after one time and before another.
func (r *shapingRun) fedBetween(from, until time.Duration) float64 {
	n := 0.0
	for _, at := range r.fed {
		if at > from && at < until {
			n++
		}
	}
	return n
}

// firstAfter is when the first recipient was fed at or after a time.
func (r *shapingRun) firstAfter(from time.Duration) time.Duration {
	i, _ := slices.BinarySearch(r.fed, from)
	return r.fed[i]
}

// perPeriod returns the recipients fed, and the limit, in periods of ten seconds.
func (r *shapingRun) perPeriod() (fed, limit Line) {
	fed, limit = Line{Name: "fed", Step: true}, Line{Name: "limit", Step: true}
	const period = 10 * time.Second
	for from := time.Duration(0); from < shapingEnd; from += period {
		fed.Points = append(fed.Points, Point{from.Minutes(), r.fedBetween(from, from+period)})
		limit.Points = append(limit.Points, Point{from.Minutes(), r.sum(r.limit, from+period) - r.sum(r.limit, from)})
	}
	return fed, limit
}

// sums returns the recipients fed, and the limit, summed up from the beginning.
func (r *shapingRun) sums() []Line {
	fed, limit := Line{Name: "fed"}, Line{Name: "limit"}
	for at := time.Duration(0); at <= shapingEnd; at += time.Second {
		fed.Points = append(fed.Points, Point{at.Minutes(), r.fedBetween(-1, at)})
		limit.Points = append(limit.Points, Point{at.Minutes(), r.sum(r.limit, at)})
	}
	return []Line{fed, limit}
}
