package simulate

import (
	"fmt"
	"strconv"
	"time"

	"zsched/ta"
)

// Dead destinations (cohortlimit, retries): a host that was down, and the mail
// that has waited for it.

var outageScene = Scene{
	Name:  "outage",
	Title: "A host that was down for an hour",
	Setting: "50 000 messages wait for one host, with interval=1m retries=1 initialconcurrency=5 maxthr=20. For an hour, " +
		"every attempt at the host fails after a second; then a delivery takes 1 to 1.2 seconds. Jitter alone: the window " +
		"is 50 000 sessions, retries=\"1 2 4 8 16 32\", and failures are those of single messages, which do not suspend the " +
		"thread, so that only jitter=10 spreads the attempts.",
	Reference: "none; the aim is that no period of ten seconds has more than twice the mean number of deliveries, which jitter " +
		"alone does not reach",
	Run: func(seed uint64) Result {
		const messages, upAt = 50_000, time.Hour
		c := NewClock(seed)
		p := defaults()
		p.Interval, p.Window.Initial, p.MaxThr = time.Minute, 5, 20
		n := NewNode(c, p, nil, downUntil(upAt, steady(time.Second, 1200*time.Millisecond)))
		var drain drainRate
		failed, revived := 0, 0
		n.Ended = func(d *Delivery) {
			if !d.OK {
				failed++
				return
			}
			if drain.total == 0 {
				revived = n.Window("host")
			}
			drain.add(c.Now())
		}
		for range messages {
			n.Submit("a@example.org", "host")
		}
		window, queue := Line{Step: true}, Line{}
		c.Every(5*time.Second, func() {
			window.Points = append(window.Points, Point{c.Now().Minutes(), float64(n.Window("host"))})
			queue.Points = append(queue.Points, Point{c.Now().Minutes(), float64(n.Queued()) / 1000})
		})
		c.Run(func() bool { return drain.total == messages })
		mean := drain.mean()
		alone := jitterAlone(seed, messages, upAt)
		return Result{
			Figures: []Figure{
				// The window, then probes: 55 seconds apart or more.
				atMost("attempts at the host while it was down", 0, float64(failed), 72),
				same("window after the first success", strconv.Itoa(revived), "5"),
				atMost("most deliveries in ten seconds, divided by the mean", 2, drain.most()/mean, 2),
				atLeast("jitter alone: most deliveries in ten seconds, divided by the mean", 2, alone.most()/alone.mean(), 2),
				unbounded("jitter alone: most deliveries in ten seconds", 0, alone.most()),
			},
			Plots: []Plot{{
				Name: "outage", Title: "A host that was down for an hour", X: "minutes", XMax: 120,
				Panels: []Panel{
					{Title: "window", Y: "sessions", YMax: 25, Lines: []Line{window}, Marks: []Mark{{20, "maxthr"}}},
					{Title: "thousands of messages in the queue", Y: "thousands", YMax: messages / 1000, Lines: []Line{queue}},
					{Title: "deliveries in ten seconds", Y: "deliveries", Lines: []Line{drain.line()}, YMax: 2.2 * mean, Marks: []Mark{{2 * mean, "twice the mean"}}},
					{Title: "jitter alone: deliveries in ten seconds", Y: "deliveries", Lines: []Line{alone.line()}, YMax: 1.1 * alone.most(), Marks: []Mark{{2 * alone.mean(), "twice the mean"}}},
				},
			}},
		}
	},
}

// jitterAlone returns how the mail of the same outage drains when nothing but jitter
// spreads the attempts: each message waits for its own next time.
func jitterAlone(seed uint64, messages int, upAt time.Duration) *drainRate {
	c := NewClock(seed)
	p := defaults()
	p.Interval, p.Retries = time.Minute, []int{1, 2, 4, 8, 16, 32}
	p.Sessions, p.MaxThr, p.MaxRing = 1000, messages, messages
	n := NewNode(c, p, nil, downUntil(upAt, steady(time.Second, 1200*time.Millisecond)))
	n.Failure = ta.Deferred
	drain := new(drainRate)
	n.Ended = func(d *Delivery) {
		if d.OK {
			drain.add(c.Now())
		}
	}
	for range messages {
		n.Submit("a@example.org", "host")
	}
	c.Run(func() bool { return drain.total == messages })
	return drain
}

var deadScene = Scene{
	Name:  "dead",
	Title: "A dead host and a live one",
	Setting: "For 20 minutes, a ring of 20 sessions has 3000 messages for a host where every attempt times out after 30 seconds, " +
		"and more than it can deliver for a live host where a delivery takes about a second. maxthr=20 interval=1m " +
		"retries=\"1 2 4 8\", so that suspensions end after 1, 3, 7 and 15 minutes, and perhaps once more. The load runs with a constant window, and with " +
		"initialconcurrency=5, where three more sessions start before five failures make a cohort. The last figure is for a host " +
		"that dies when its window has grown to 20.",
	Reference: "none; the aim is that a dead host costs one window of attempts, and then one probe for each suspension. By Postfix's " +
		"rules for a window that moves, the first of N failures narrows it to N-1, and each of the next N-2 lets another session start",
	Run: func(seed uint64) Result {
		_, _, alone := deadAndLive(seed, 0, 0)
		result := Result{}
		for _, initial := range []int{0, 5} {
			first, later, live := deadAndLive(seed, initial, 3000)
			name, window := "constant window", 20
			if initial > 0 {
				// The first failure makes the window 4, and the fifth declares the
				// host dead. The second to the fourth each let another session start.
				name, window = fmt.Sprintf("initialconcurrency=%d", initial), 8
			}
			result.Figures = append(result.Figures,
				atMost(name+": attempts in the first minute", 0, float64(first), float64(window)),
				near(name+": attempts after that", 0, float64(later), 5, 1).
					because("after the end of the list retries, each wait is a random one from the list"),
				atLeast(name+": deliveries to the live host, % of those without the dead host", 1, 100*float64(live)/float64(alone), 95),
			)
		}
		result.Figures = append(result.Figures,
			atMost("a window that has grown to 20: attempts before the first suspension", 0, float64(deadAfterGrowth(seed, 20)), 20+20-2))
		return result
	},
}

// deadAndLive returns the attempts at a dead host in the first minute and later,
// and the deliveries to a live host.
func deadAndLive(seed uint64, initial, messages int) (first, later, live int) {
	c := NewClock(seed)
	p := defaults()
	p.Interval, p.Retries = time.Minute, []int{1, 2, 4, 8}
	p.MaxRing, p.MaxThr, p.Window.Initial = 20, 20, initial
	n := NewNode(c, p, nil, func(d *Delivery) {
		if d.Host == "live" {
			aSecond(d)
			return
		}
		d.endAfter(30*time.Second, false)
	})
	n.Fed = func(d *Delivery) {
		switch {
		case d.Host == "live":
			live++
		case c.Now() < time.Minute:
			first++
		default:
			later++
		}
	}
	n.submitMany(messages, "a@example.org", "dead")
	n.submitMany(25_000, "a@example.org", "live")
	c.RunUntil(20 * time.Minute)
	return first, later, live
}

// deadAfterGrowth returns the attempts that fail before the first suspension of a host
// that dies when its window has grown to maxthr.
func deadAfterGrowth(seed uint64, maxThr int) (failed int) {
	c := NewClock(seed)
	p := defaults()
	p.Interval, p.Retries = time.Hour, []int{1}
	p.MaxRing, p.MaxThr, p.Window.Initial = 100, maxThr, 5
	dead := false
	n := NewNode(c, p, nil, func(d *Delivery) {
		if dead {
			d.endAfter(30*time.Second, false)
			return
		}
		aSecond(d)
	})
	n.Ended = func(d *Delivery) {
		if !d.OK {
			failed++
		}
	}
	n.submitMany(3000, "a@example.org", "host")
	c.Run(func() bool { return n.Window("host") == maxThr })
	c.RunUntil(c.Now() + 5*time.Second)
	dead = true
	c.RunUntil(c.Now() + 10*time.Minute) // the suspension takes an hour
	return failed
}

// drainRate counts deliveries in periods of ten seconds.
type drainRate struct {
	total   int
	first   int   // the number of the first period, from the beginning
	periods []int // from the first on
}

const drainPeriod = 10 * time.Second

func (r *drainRate) add(at time.Duration) {
	period := int(at / drainPeriod)
	if r.total == 0 {
		r.first = period
	}
	for len(r.periods) <= period-r.first {
		r.periods = append(r.periods, 0)
	}
	r.periods[period-r.first]++
	r.total++
}

func (r *drainRate) mean() float64 { return float64(r.total) / float64(len(r.periods)) }

func (r *drainRate) most() float64 {
	most := 0
	for _, n := range r.periods {
		most = max(most, n)
	}
	return float64(most)
}

func (r *drainRate) line() Line {
	l := Line{Step: true, Points: []Point{{0, 0}}}
	at := func(period int) float64 { return (time.Duration(period) * drainPeriod).Minutes() }
	for i, n := range r.periods {
		l.Points = append(l.Points, Point{at(r.first + i), float64(n)})
	}
	l.Points = append(l.Points, Point{at(r.first + len(r.periods)), 0})
	return l
}
