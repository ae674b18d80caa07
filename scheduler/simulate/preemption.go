package simulate

import (
	"fmt"
	"strings"
	"time"

	"zsched/scheduler"
)

// Preemption (slotcost, slotdiscount, slotloan, minslots): in what order the
// recipients of several messages are delivered over one session.

var sequencesScene = Scene{
	Name:  "sequences",
	Title: "Preemption: published sequences",
	Setting: "Messages with the given numbers of recipients, all at different hosts, are queued in the same second and " +
		"delivered over one session. Each digit is a delivery for the message with that number. The parameters are " +
		"slotcost, slotdiscount, slotloan and minslots.",
	Reference: "Postfix, Queue Scheduler, \"How the preemption works\", the first three; the others follow from its rules",
	Run: func(uint64) Result {
		result := Result{}
		for _, s := range []struct {
			jobs                       []int
			cost, discount, loan, slot int
			want                       string
		}{
			{[]int{4, 1, 1, 1, 1}, 1, 0, 0, 3, "12131415"},
			{[]int{10, 2, 2}, 2, 0, 0, 3, "11112211113311"},
			{[]int{10, 2, 2}, 2, 50, 0, 3, "11221111331111"},
			{[]int{10, 2, 2}, 2, 50, 3, 3, "12211113311111"},
			{[]int{10, 2, 2}, 5, 50, 3, 3, "11111111112233"},
		} {
			o := newOneSession(1, s.cost, s.discount, s.loan, s.slot)
			for _, recipients := range s.jobs {
				o.submit(recipients)
			}
			o.Run(func() bool { return o.Queued() == 0 })
			var got strings.Builder
			for _, id := range o.picks {
				fmt.Fprint(&got, id)
			}
			jobs := strings.Trim(strings.ReplaceAll(fmt.Sprint(s.jobs), " ", ","), "[]")
			name := fmt.Sprintf("%s with %d, %d, %d, %d", jobs, s.cost, s.discount, s.loan, s.slot)
			result.Figures = append(result.Figures, same(name, got.String(), s.want))
		}
		return result
	},
}

var inflationScene = Scene{
	Name:  "inflation",
	Title: "Preemption: how much longer a message takes",
	Setting: "Random loads on one session, 30 for each slotcost k, with random slotdiscount, slotloan and minslots. The " +
		"inflation of a message is the number of all deliveries from its first to its last, divided by the number of " +
		"its own. One level: no message that overtakes another is large enough to be overtaken itself.",
	Reference: "Postfix, Queue Scheduler: at most k/(k-1) at any depth, (k+1)/k with one level",
	Run: func(seed uint64) Result {
		result := Result{}
		for k := 2; k <= 5; k++ {
			worst, depth := worstInflation(seed, k, false)
			result.Figures = append(result.Figures,
				atMost(fmt.Sprintf("k=%d, any depth", k), 3, worst, float64(k)/float64(k-1)),
				atLeast(fmt.Sprintf("k=%d, messages that overtook and were overtaken", k), 0, float64(depth), 1))
		}
		for k := 1; k <= 5; k++ {
			worst, _ := worstInflation(seed, k, true)
			result.Figures = append(result.Figures, atMost(fmt.Sprintf("k=%d, one level", k), 3, worst, float64(k+1)/float64(k)))
		}
		return result
	},
}

// worstInflation runs random loads with a slotcost. It returns the greatest
// inflation of a message, and how many messages overtook another and were
// overtaken themselves.
func worstInflation(seed uint64, cost int, oneLevel bool) (worst float64, nested int) {
	for load := range uint64(30) {
		r := NewClock(seed<<8 + load).Rand
		minSlots := 1 + r.IntN(3)
		o := newOneSession(seed<<8+load, cost, r.IntN(101), r.IntN(6), minSlots)
		arrive := func() {
			if o.Rand.IntN(100) >= 15 {
				return
			}
			sizes := []int{1, 1 + o.Rand.IntN(5), 1 + o.Rand.IntN(100)}
			if oneLevel {
				sizes = []int{1 + o.Rand.IntN(max(1, minSlots*cost-1)), 60 + o.Rand.IntN(20)}
			}
			o.submit(sizes[o.Rand.IntN(len(sizes))])
		}
		o.Every(time.Second, func() {
			if o.Now() < 200*time.Second {
				arrive()
			}
		})
		o.RunUntil(200 * time.Second)
		o.Run(func() bool { return o.Queued() == 0 })
		inflation, n := o.inflation()
		worst, nested = max(worst, inflation), nested+n
	}
	return worst, nested
}

// oneSession is a node with a single session and a different host for each
// recipient.
type oneSession struct {
	*Node
	hosts int
	sizes []int                 // recipients of each message
	picks []scheduler.MessageID // in the order of delivery
}

func newOneSession(seed uint64, cost, discount, loan, minSlots int) *oneSession {
	p := defaults()
	p.MaxRing, p.MsgSessions, p.Share = 1, 0, "none"
	p.Preemption.SlotCost, p.Preemption.SlotDiscount, p.Preemption.SlotLoan, p.Preemption.MinSlots = cost, discount, loan, minSlots
	o := &oneSession{Node: NewNode(NewClock(seed), p, nil, steady(time.Second, time.Second))}
	o.Fed = func(d *Delivery) { o.picks = append(o.picks, d.Message.ID) }
	return o
}

func (o *oneSession) submit(recipients int) {
	hosts := make([]string, recipients)
	for i := range hosts {
		o.hosts++
		hosts[i] = fmt.Sprint("host", o.hosts)
	}
	o.sizes = append(o.sizes, recipients)
	o.Submit("a@example.org", hosts...)
}

// inflation returns the greatest inflation of a message, and how many messages
// were both overtaken and delivered between two recipients of another one.
func (o *oneSession) inflation() (worst float64, nested int) {
	first, last := make([]int, len(o.sizes)+1), make([]int, len(o.sizes)+1)
	for i, id := range o.picks {
		if first[id] == 0 {
			first[id] = i + 1
		}
		last[id] = i + 1
	}
	within := func(a, b int) bool { return first[b] < first[a] && last[a] < last[b] }
	for id := 1; id < len(first); id++ {
		span := last[id] - first[id] + 1
		worst = max(worst, float64(span)/float64(o.sizes[id-1]))
		if span == o.sizes[id-1] {
			continue
		}
		for other := 1; other < len(first); other++ {
			if within(id, other) {
				nested++
				break
			}
		}
	}
	return worst, nested
}
