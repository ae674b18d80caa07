package simulate

import (
	"fmt"
	"time"
)

// Sessions of one message (msgsessions, msgscale), and senders that take turns
// (share, PARAMshares).

var sessionsScene = Scene{
	Name:  "sessions",
	Title: "Sessions of one message",
	Setting: "A message to 30 000 hosts has 1000 sessions for itself, with msgsessions=20 and msgscale=10. After ten " +
		"seconds another message to 20 000 hosts follows. A delivery takes 0.5 to 1.5 seconds. Each figure is the mean " +
		"over a period in which the numbers of sessions are stable.",
	Reference: "Finch, Notes on an MTA scheduler: 10/11 of all sessions for one message, 10/21 each for two",
	Run: func(seed uint64) Result {
		const secondAt = 10 * time.Second
		c := NewClock(seed)
		p := defaults()
		p.MaxRing, p.Sessions = 1000, 100
		n := NewNode(c, p, nil, steady(time.Second/2, 3*time.Second/2))
		big := n.Submit("a@example.org", hostNames("a", 30_000)...)
		var other *Message
		c.After(secondAt, func() { other = n.Submit("b@example.net", hostNames("b", 20_000)...) })
		lines := []Line{{Name: "first message"}, {Name: "second message"}}
		var alone, firstOfTwo, secondOfTwo meanValue
		c.Every(time.Second/20, func() {
			x := c.Now().Seconds()
			lines[0].Points = append(lines[0].Points, Point{x, float64(big.Sessions)})
			if c.Now() >= 5*time.Second && other == nil {
				alone.add(big.Sessions)
			}
			if other == nil {
				return
			}
			lines[1].Points = append(lines[1].Points, Point{x, float64(other.Sessions)})
			if c.Now() >= 20*time.Second {
				firstOfTwo.add(big.Sessions)
				secondOfTwo.add(other.Sessions)
			}
		})
		c.RunUntil(35 * time.Second)
		const one, two = 100 * 10.0 / 11, 100 * 10.0 / 21
		const why = "the number of sessions is an integer, and some have just ended"
		return Result{
			Figures: []Figure{
				near("one message, % of the sessions", 1, alone.mean()/10, one, 1).because(why),
				near("two messages, the first, %", 1, firstOfTwo.mean()/10, two, 1).because(why),
				near("two messages, the second, %", 1, secondOfTwo.mean()/10, two, 1).because(why),
			},
			Plots: []Plot{{
				Name: "sessions", Title: "Sessions of two messages; 1000 in all", X: "seconds", XMax: 35,
				Panels: []Panel{{Y: "sessions", YMax: 1000, Lines: lines, Marks: []Mark{{1000 * 10.0 / 11, "10/11"}, {1000 * 10.0 / 21, "10/21"}}}},
			}},
		}
	},
}

var sharesScene = Scene{
	Name:  "shares",
	Title: "Senders that take turns by weight",
	Setting: "Three domains send more than the ring's 20 sessions can deliver to one host: light.example with weight 1 " +
		"from the beginning, middle.example with weight 2 after 36 seconds, heavy.example with weight 3 after 72. " +
		"A delivery takes about a second.",
	Reference: "the weights: 1/6, 2/6 and 3/6 of the deliveries after 72 seconds",
	Run: func(seed uint64) Result {
		const join, period, end = 36, 12, 120 // seconds
		c := NewClock(seed)
		p := defaults()
		p.MaxRing, p.MaxThr = 20, 20
		domains := []string{"light.example", "middle.example", "heavy.example"}
		weights := map[string]int{"light.example": 1, "middle.example": 2, "heavy.example": 3}
		n := NewNode(c, p, weights, steady(900*time.Millisecond, 1100*time.Millisecond))
		var fed [end / period]map[string]int // by sender
		for i := range fed {
			fed[i] = make(map[string]int)
		}
		n.Fed = func(d *Delivery) {
			fed[int(c.Now().Seconds())/period][d.Message.Sender]++
		}
		for i, domain := range domains {
			c.After(time.Duration(i)*join*time.Second, func() {
				for range 3000 {
					n.Submit("list@"+domain, "host")
				}
			})
		}
		c.RunUntil(end * time.Second)
		result := Result{}
		plot := Plot{Name: "shares", Title: "Deliveries of three senders with weights 1, 2 and 3", X: "seconds", XMax: end}
		panel := Panel{Y: "% of the deliveries", YMax: 100}
		for _, domain := range domains {
			line, of, all := Line{Name: domain, Step: true}, 0, 0
			for i, counts := range fed {
				total := 0
				for _, count := range counts {
					total += count
				}
				count := counts["list@"+domain]
				if count > 0 {
					line.Points = append(line.Points, Point{float64(i * period), 100 * float64(count) / float64(total)})
				}
				if i*period >= 2*join {
					of, all = of+count, all+total
				}
			}
			line.Points = append(line.Points, Point{end, line.Points[len(line.Points)-1].Y})
			panel.Lines = append(panel.Lines, line)
			name := fmt.Sprintf("%s (weight %d), %% of the deliveries", domain, weights[domain])
			result.Figures = append(result.Figures, near(name, 1, 100*float64(of)/float64(all), 100*float64(weights[domain])/6, 2).
				because("the measurement ends in the middle of a round of turns"))
		}
		plot.Panels = []Panel{panel}
		result.Plots = []Plot{plot}
		return result
	},
}

// hostNames returns names of different hosts.
func hostNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d.example", prefix, i)
	}
	return names
}

// meanValue is the mean of what is added.
type meanValue struct {
	n   int
	sum float64
}

func (m *meanValue) add(x int) {
	m.n++
	m.sum += float64(x)
}

func (m *meanValue) mean() float64 { return m.sum / float64(m.n) }
