package simulate

import (
	"time"

	"zsched/scheduler/rule"
)

// The scene of two nodes with one limit (clustermax): what each has over time, and the
// most that both have in each phase.

// clusterPhase is a part of the scene, from its beginning to the next one.
type clusterPhase struct {
	name string
	from time.Duration
	// begin makes the change with which the phase begins.
	begin func(*clusterRun)
	least float64 // mean use of the limit that the phase must reach; 0: none
}

// clusterLimit is the limit of the scene.
const clusterLimit = 20

var clusterPhases = []clusterPhase{
	{"node a alone", 0, func(r *clusterRun) { r.nodes[0].submitMany(8000, "a@example.org", "host") }, 0},
	{"both have mail", 2 * time.Minute, func(r *clusterRun) { r.nodes[1].submitMany(8000, "a@example.org", "host") }, 0.9},
	{"node b can use four", 4 * time.Minute, func(r *clusterRun) { r.setMaxThr(1, 4) }, 0.9},
	{"the store is down: first 40 seconds", 6 * time.Minute, func(r *clusterRun) { r.store.fail() }, 0},
	{"the store is down: divided", 6*time.Minute + 40*time.Second, func(*clusterRun) {}, 0},
	{"node b can use all", 8 * time.Minute, func(r *clusterRun) { r.setMaxThr(1, clusterLimit) }, 0.9},
	{"the store is back, empty: first 40 seconds", 10 * time.Minute, func(r *clusterRun) { r.store.begin() }, 0},
	{"afterwards", 10*time.Minute + 40*time.Second, func(*clusterRun) {}, 0.9},
	{"node a can use two", 12 * time.Minute, func(r *clusterRun) { r.setMaxThr(0, 2) }, 0.9},
}

const clusterEnd = 14 * time.Minute

var clusterScene = Scene{
	Name:  "cluster",
	Title: "Two nodes with one limit, and an outage of the store",
	Setting: "Two nodes have mail for one host, with clustermax=20 maxthr=20; a delivery takes two to three seconds. Node a " +
		"has mail from the beginning, node b after two minutes. From the fourth to the eighth minute node b has maxthr=4, " +
		"and from the twelfth minute node a has maxthr=2. The store is down for four minutes and then comes back without its " +
		"data. The nodes have the real core; the store, the calls and the rules of an outage are a model of package cluster " +
		"(ttl 30 s, calls of 2 ms).",
	Reference: "scheduler-cluster(7): the limit holds at every instant, and mean use is at least 90 % of it with demand on the " +
		"nodes; a share ends 24 s after the call that renewed it, a node uses its part of the limit 30 s after the store last " +
		"answered, and for 30 s after the return no node gets more than its busy sessions",
	Run: func(seed uint64) Result {
		r := runCluster(seed, clusterLimit/2)
		result := Result{Plots: []Plot{r.plot()}}
		for i, p := range clusterPhases {
			result.Figures = append(result.Figures, atMost(p.name+": most sessions", 0, float64(r.most[i]), clusterLimit))
			if p.least > 0 {
				result.Figures = append(result.Figures, atLeast(p.name+": mean sessions", 1, r.mean(i), p.least*clusterLimit))
			} else {
				result.Figures = append(result.Figures, unbounded(p.name+": mean sessions", 1, r.mean(i)))
			}
		}
		return result
	},
}

// clusterRun is a run of the scene.
type clusterRun struct {
	store *clusterStore
	nodes []*clusterNode
	phase int
	most  []int     // sessions at once, by phase
	sums  []float64 // of the samples, by phase
	lines []Line    // of the nodes and of their sum
}

// sampleTime is the time between two samples of the sessions. The maximum is
// updated at the beginning of each session.
const sampleTime = 100 * time.Millisecond

// runCluster runs the scene. lostPart is what a node uses while the store is lost.
func runCluster(seed uint64, lostPart int) *clusterRun {
	c := NewClock(seed)
	r := &clusterRun{
		store: &clusterStore{Clock: c, limit: clusterLimit, up: true, born: -time.Hour},
		most:  make([]int, len(clusterPhases)), sums: make([]float64, len(clusterPhases)),
		lines: []Line{{Name: "node a", Step: true}, {Name: "node b", Step: true}, {Name: "both", Step: true}},
	}
	for _, name := range []string{"a", "b"} {
		n := newClusterNode(r.store, name, clusterParams(clusterLimit), lostPart)
		n.Fed = func(*Delivery) { r.most[r.phase] = max(r.most[r.phase], r.busy()) }
		r.nodes = append(r.nodes, n)
	}
	for i, p := range clusterPhases {
		c.RunUntil(p.from)
		r.phase = i
		r.most[i] = r.busy()
		p.begin(r)
		if i == 0 {
			c.Every(sampleTime, r.sample)
		}
	}
	c.RunUntil(clusterEnd)
	return r
}

func clusterParams(maxThr int) rule.Params {
	p := defaults()
	p.MaxThr, p.MaxRing, p.Cluster.Max = maxThr, clusterLimit, clusterLimit
	return p
}

// setMaxThr reloads a node, so that it can use that many sessions.
func (r *clusterRun) setMaxThr(node, sessions int) {
	r.nodes[node].Reload(clusterParams(sessions), nil)
}

// busy is the number of sessions of all nodes.
func (r *clusterRun) busy() int { return r.nodes[0].busy() + r.nodes[1].busy() }

func (r *clusterRun) sample() {
	r.sums[r.phase] += float64(r.busy())
	for i, sessions := range []int{r.nodes[0].busy(), r.nodes[1].busy(), r.busy()} {
		r.lines[i].Points = append(r.lines[i].Points, Point{r.store.Now().Minutes(), float64(sessions)})
	}
}

// mean returns the mean number of sessions in a phase.
func (r *clusterRun) mean(phase int) float64 {
	end := clusterEnd
	if phase+1 < len(clusterPhases) {
		end = clusterPhases[phase+1].from
	}
	return r.sums[phase] / float64((end-clusterPhases[phase].from)/sampleTime)
}

func (r *clusterRun) plot() Plot {
	limit := []Mark{{clusterLimit, "clustermax"}}
	return Plot{
		Name: "cluster", Title: "Two nodes with one limit, and an outage of the store", X: "minutes", XMax: clusterEnd.Minutes(),
		Panels: []Panel{
			{Title: "sessions of each node", Y: "sessions", YMax: clusterLimit * 1.2, Lines: r.lines[:2], Marks: limit},
			{Title: "sessions of both", Y: "sessions", YMax: clusterLimit * 1.2, Lines: r.lines[2:], Marks: limit},
		},
	}
}
