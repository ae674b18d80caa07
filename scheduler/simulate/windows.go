package simulate

import (
	"math"
	"slices"
	"strconv"
	"time"

	"zsched/scheduler/limit"
)

// Windows (initialconcurrency, positivefeedback, negativefeedback): scenes with
// a server that refuses connections, and with servers that are congested.

// style is a kind of feedback, with the published figures.
type style struct {
	name                      string
	per                       limit.Per
	deferred, mean, deviation float64
}

var limiterScene = Scene{
	Name:  "limiter",
	Title: "A server that limits its clients",
	Setting: "1000 messages with two recipients each go to one host, with initialconcurrency=5 and maxthr=20. The server " +
		"takes five connections and answers 421 to any further one; a delivery takes two seconds. The window is " +
		"sampled at the end of each delivery. Nothing is retried.",
	Reference: "Postfix, Queue Scheduler, \"Impact of active server concurrency limiter\"",
	Run: func(seed uint64) Result {
		styles := []style{
			{"1/N", limit.PerN, 16.5, 5.17, 0.38},
			{"1/sqrt(N)", limit.PerSqrt, 24.5, 5.28, 0.45},
			{"1", limit.PerOne, 49.7, 5.63, 0.67},
		}
		result := Result{}
		plot := Plot{Name: "limiter", Title: "Window of a host that takes five connections", X: "deliveries ended", XMax: 150}
		for _, st := range styles {
			w := windowLoad{style: st, initial: 5, messages: 1000}.measure(seed, limited(5, 2*time.Second, 2200*time.Millisecond))
			const why = "the service time is random; another seed gives a little more or less"
			result.Figures = append(result.Figures,
				near(st.name+": deferred, %", 1, w.deferred(), st.deferred, 1).because(why),
				near(st.name+": mean window", 2, w.mean(), st.mean, 0.2).because(why),
				near(st.name+": deviation of the window", 2, w.deviation(), st.deviation, 0.2).because(why),
			)
			plot.Panels = append(plot.Panels, Panel{
				Y: "window", Title: "feedback " + st.name, YMax: 10, Lines: []Line{{Points: w.byDelivery, Step: true}},
				Marks: []Mark{{5, "the limit"}},
			})
		}
		result.Plots = append(result.Plots, plot)
		return result
	},
}

var growthScene = Scene{
	Name:  "growth",
	Title: "How a window grows",
	Setting: "1000 messages go to a host that takes any number of connections, with initialconcurrency=5 and maxthr=20. A " +
		"delivery takes 2 to 2.2 seconds. The figures are the deliveries after which the window is 20, and the " +
		"window that is reached when the ring has only one session.",
	Reference: "Postfix, Queue Scheduler: with 1/N, one session more after each cohort (5 + 6 + ... + 19); with 1, one more " +
		"after each delivery; 1/sqrt(N) lies between them; a window grows only while it is below the busy sessions plus " +
		"the initial ones",
	Run: func(seed uint64) Result {
		result := Result{}
		panel := Panel{Y: "window", YMax: 22, Marks: []Mark{{20, "maxthr"}}}
		for _, st := range []style{{name: "1/N", per: limit.PerN}, {name: "1/sqrt(N)", per: limit.PerSqrt}, {name: "1", per: limit.PerOne}} {
			w := windowLoad{style: st, initial: 5, messages: 1000}.measure(seed, steady(2*time.Second, 2200*time.Millisecond))
			full := slices.IndexFunc(w.byDelivery, func(p Point) bool { return p.Y == 20 })
			name := st.name + ": deliveries until the window is 20"
			switch st.per {
			case limit.PerN:
				result.Figures = append(result.Figures, same(name, strconv.Itoa(full), "180"))
			case limit.PerOne:
				result.Figures = append(result.Figures, same(name, strconv.Itoa(full), "15"))
			default:
				result.Figures = append(result.Figures, unbounded(name, 0, float64(full)))
			}
			panel.Lines = append(panel.Lines, Line{Name: "feedback " + st.name, Points: w.byTime, Step: true})
		}
		one := windowLoad{style: style{per: limit.PerN}, initial: 5, messages: 1000, maxRing: 1}.measure(seed, aSecond)
		result.Figures = append(result.Figures, same("1/N, one session: window at the end", label(one.byDelivery[900].Y), "6"))
		result.Plots = []Plot{{Name: "growth", Title: "How a window grows", X: "seconds", XMax: 40, Panels: []Panel{panel}}}
		return result
	},
}

var connectScene = Scene{
	Name:  "connect",
	Title: "Congested servers: timeout while connecting",
	Setting: "1000 deliveries to one host, with initialconcurrency=20 and maxthr=20. Five server processes take 2 " +
		"to 2.05 seconds each, behind a queue of six connections. A client that finds the queue full sends its SYN again after " +
		"3, 9 and 21 seconds and gives up after 30.",
	Reference: "Postfix, Queue Scheduler, \"Impact of the 30s SMTP connect timeout\"",
	Run: func(seed uint64) Result {
		return congestion(seed, network{deliveries: 1000, repeats: seconds(0, 3, 9, 21), timeout: 30 * time.Second, decimals: 1, within: 1}, []style{
			{"1/N", limit.PerN, 9.9, 19.4, 0.49},
			{"1/sqrt(N)", limit.PerSqrt, 10.4, 19.6, 0.59},
			{"1", limit.PerOne, 10.1, 19.5, 1.29},
		})
	},
}

var greetingScene = Scene{
	Name:  "greeting",
	Title: "Congested servers: timeout while waiting for the greeting",
	Setting: "10 000 deliveries to the same servers. A client that finds the queue full is connected, tries to get its greeting " +
		"after 3, 9, 21, 45 and 93 seconds, and gives up after 300.",
	Reference: "Postfix, Queue Scheduler, \"Impact of the 300s SMTP greeting timeout\"",
	Run: func(seed uint64) Result {
		return congestion(seed, network{deliveries: 10_000, repeats: seconds(0, 3, 9, 21, 45, 93), timeout: 300 * time.Second, decimals: 2, within: 0.1}, []style{
			{"1/N", limit.PerN, 1.16, 19.8, 0.37},
			{"1/sqrt(N)", limit.PerSqrt, 1.21, 19.9, 0.23},
			{"1", limit.PerOne, 1.18, 20.0, 0.16},
		})
	},
}

// seconds returns times in seconds.
func seconds(n ...time.Duration) []time.Duration {
	for i := range n {
		n[i] *= time.Second
	}
	return n
}

// network says how long clients of congested servers keep trying.
type network struct {
	deliveries int
	repeats    []time.Duration // as in congested
	timeout    time.Duration
	decimals   int     // of the published percentage
	within     float64 // how near ours must be
}

// congestion measures the styles of feedback with congested servers.
func congestion(seed uint64, nw network, styles []style) Result {
	result := Result{}
	for _, st := range styles {
		s := &congested{processes: 5, room: 6, least: 2 * time.Second, most: 2050 * time.Millisecond, repeats: nw.repeats, timeout: nw.timeout}
		w := windowLoad{style: st, initial: 20, messages: nw.deliveries}.measure(seed, s.connect)
		const why = "the length of the queue and the spread of the service time were not published; with timeouts of 30 s, one " +
			"place more or less in the queue makes a difference of one percent, and without any spread the timeouts stay synchronous"
		result.Figures = append(result.Figures,
			near(st.name+": deferred, %", nw.decimals, w.deferred(), st.deferred, nw.within).because(why),
			atLeast(st.name+": mean window", 1, w.mean(), 19).withReference(decimal(1, st.mean)).because(why),
			near(st.name+": deviation of the window", 2, w.deviation(), st.deviation, 0.2).because(why),
		)
	}
	return result
}

// windowSamples has the window after each delivery.
type windowSamples struct {
	n, failed    int
	sum, squares float64
	// The window after each of the first deliveries, by their number and by the
	// time in seconds.
	byDelivery, byTime []Point
}

// windowLoad is a load of messages with two recipients each, for one host with
// maxthr=20.
type windowLoad struct {
	style    style
	initial  int // initialconcurrency
	messages int
	maxRing  int // 0: no limit
}

// measure delivers the load.
func (l windowLoad) measure(seed uint64, server Server) *windowSamples {
	c := NewClock(seed)
	p := defaults()
	p.Window.Initial, p.MaxThr, p.MaxRing = l.initial, 20, l.maxRing
	p.Window.Positive = limit.Feedback{Amount: 1, Per: l.style.per}
	p.Window.Negative = p.Window.Positive
	n := NewNode(c, p, nil, server)
	start := []Point{{0, float64(l.initial)}}
	w := &windowSamples{byDelivery: start, byTime: start}
	n.Ended = func(d *Delivery) { w.add(d.OK, n.Window("host"), c.Now()) }
	for range l.messages {
		n.Submit("a@example.org", "host", "host")
	}
	c.Run(func() bool { return w.n == l.messages })
	return w
}

func (w *windowSamples) add(ok bool, window int, at time.Duration) {
	w.n++
	if !ok {
		w.failed++
	}
	size := float64(window)
	w.sum += size
	w.squares += size * size
	if w.n <= 1000 {
		w.byDelivery = append(w.byDelivery, Point{float64(w.n), size})
		w.byTime = append(w.byTime, Point{at.Seconds(), size})
	}
}

func (w *windowSamples) deferred() float64 { return 100 * float64(w.failed) / float64(w.n) }
func (w *windowSamples) mean() float64     { return w.sum / float64(w.n) }
func (w *windowSamples) deviation() float64 {
	return math.Sqrt(w.squares/float64(w.n) - w.mean()*w.mean())
}
