package simulate

import "time"

// Models of servers.

// steady serves any number of clients at once, each in about the same time.
func steady(least, most time.Duration) Server {
	return func(d *Delivery) { d.endAfter(d.Node.between(least, most), true) }
}

// limited serves a few clients at once and refuses others soon after they have
// connected.
func limited(limit int, least, most time.Duration) Server {
	busy := 0
	return func(d *Delivery) {
		if busy == limit {
			d.endAfter(d.Node.between(20*time.Millisecond, 30*time.Millisecond), false)
			return
		}
		busy++
		d.Node.After(d.Node.between(least, most), func() { busy--; d.End(true) })
	}
}

// downUntil returns a server that fails each client after a second until upAt. From
// then on it is the server up.
func downUntil(upAt time.Duration, up Server) Server {
	return func(d *Delivery) {
		if d.Node.Now() < upAt {
			d.endAfter(time.Second, false)
			return
		}
		up(d)
	}
}

func (d *Delivery) endAfter(t time.Duration, ok bool) {
	d.Node.After(t, func() { d.End(ok) })
}

// congested is a number of server processes behind a short queue of accepted
// connections. A client that finds the queue full tries again at the times in
// repeats, which count from its first attempt.
type congested struct {
	processes   int           // free ones
	room        int           // in the queue
	least, most time.Duration // of a delivery
	repeats     []time.Duration
	timeout     time.Duration
	waiting     []*Delivery
}

func (s *congested) connect(d *Delivery) { s.try(d, 0) }

// try is the attempt of a client with this index in repeats.
func (s *congested) try(d *Delivery, attempt int) {
	switch {
	case s.processes > 0:
		s.serve(d)
	case len(s.waiting) < s.room:
		s.waiting = append(s.waiting, d)
	case attempt+1 == len(s.repeats):
		d.endAfter(s.timeout-s.repeats[attempt], false)
	default:
		d.Node.After(s.repeats[attempt+1]-s.repeats[attempt], func() { s.try(d, attempt+1) })
	}
}

func (s *congested) serve(d *Delivery) {
	s.processes--
	d.Node.After(d.Node.between(s.least, s.most), func() {
		s.processes++
		if len(s.waiting) > 0 {
			next := s.waiting[0]
			s.waiting = s.waiting[1:]
			s.serve(next)
		}
		d.End(true)
	})
}
