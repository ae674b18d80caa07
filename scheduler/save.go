package scheduler

import "time"

// Warm restart: what the scheduler knows about the mail, but the control files do not
// contain, is saved in POSTOFFICE/.scheduler.state (scheduler-state(5)). restore.go
// restores it.

// Saved is one part of the state to be saved. The slices are reused from part to
// part.
type Saved struct {
	Recipients []SavedRecipient
	Threads    []SavedThread
	Orders     []SavedOrder
}

// SavedRecipient is the saved state of the recipients of a message for one channel and host, which
// were tried. The first of them that has no outcome yet stands for all. Times are in seconds since
// the epoch, as in the file, because there may be ten million.
type SavedRecipient struct {
	Message      MessageID
	Offset       int64 // in the control file
	ModifiedAt   int64 // mtime of the message file: the number may be that of a later message
	Attempts     int
	NextAt       int64  // when they are due, rounded up; 0: they do not wait
	FedAt        int64  // last, rounded down; 0: never
	Step         int    // index in Retries of the next step
	Notary, Text string // the last report; both empty: none
}

// SavedThread is the saved state of a thread.
type SavedThread struct {
	Channel, Host  string
	SuspendedUntil int64  // in seconds since the epoch, rounded up; 0: not suspended
	Step           int    // index in Retries of the next suspension
	Dead           bool   // the destination failed, and nothing was delivered since
	Site           string // as an agent reported it; "": not known
}

// SavedOrder is an order on the part of one message for one channel and host, which waits until
// an agent has reported.
type SavedOrder struct {
	ModifiedAt time.Time // of the message file
	Ordered
}

func (to *Saved) reset() {
	clear(to.Recipients)
	clear(to.Threads)
	to.Recipients, to.Threads, to.Orders = to.Recipients[:0], to.Threads[:0], to.Orders[:0]
}

// SavePass goes through everything that is to be saved, a part at a time. If the queue
// changes during a pass, what has moved may be missing: that mail is due early if the
// scheduler dies before the next pass. At an orderly stop, nothing changes.
type SavePass struct {
	s      *Scheduler
	thread threadRef // the next ones
	vertex vertexRef
}

// Save begins a pass.
func (s *Scheduler) Save() *SavePass { return &SavePass{s: s, thread: 1, vertex: 1} }

// Next replaces the contents of to with the next part, of about n items; the orders, which are
// few, do not count. more is false at the end.
func (p *SavePass) Next(to *Saved, n int) (more bool) {
	to.reset()
	s := p.s
	for looked := 0; looked < 4*n && len(to.Recipients)+len(to.Threads) < n; looked++ {
		switch {
		case p.thread <= s.mail.threadTable.Last:
			if t := *s.mail.threadTable.At(p.thread); t != nil {
				s.saved.saveThread(to, t)
			}
			p.thread++
		case p.vertex <= s.mail.vertices.Last:
			s.saved.saveVertex(to, s.mail.vertices.At(p.vertex))
			p.vertex++
		default:
			return false
		}
	}
	return true
}

// saveThread saves a thread that is suspended, or whose site is known. A suspension by a reply
// rule is saved like any other.
func (sa *saved) saveThread(to *Saved, t *thread) {
	saved := SavedThread{
		Channel: t.key.channel, Host: t.key.host, SuspendedUntil: int64(sa.s.agenda.dateAt(t.suspendedUntil).ceilSecond()),
		Step: int(t.retry), Dead: t.window.Dead, Site: sa.s.limits.knownSites[t.key],
	}
	if saved.SuspendedUntil != 0 || saved.Site != "" {
		to.Threads = append(to.Threads, saved)
	}
}

// saveVertex saves a vertex that was tried, and the order on it that waits. It may have left. Orders
// are saved only while the scheduler stops: one that is carried out later, or replaced, must not be
// carried out again after a crash.
func (sa *saved) saveVertex(to *Saved, v *vertex) {
	if v.state == 0 {
		return
	}
	if o := sa.s.orders.waiting[v.ref]; o != nil && sa.s.agents.stop.begun {
		m, key := sa.s.mail.messageOf(v), sa.s.mail.threadOf(v).key
		saved := SavedOrder{m.modifiedAt.time(), *o}
		saved.Targets, saved.Back = []Target{{m.id, key.channel, key.host}}, true
		to.Orders = append(to.Orders, saved)
	}
	m, at := sa.s.mail.messageOf(v), sa.s.threads.wakeAt(v)
	for i := range sa.s.mail.lenOf(v) {
		r := sa.s.mail.recipient(v, i)
		if !r.isUndelivered() || r.attempts == 0 && at == 0 {
			continue
		}
		one := SavedRecipient{
			Message: m.id, Offset: int64(r.offset), ModifiedAt: m.modifiedAt.unix(), Attempts: int(r.attempts),
			NextAt: int64(sa.s.agenda.dateAt(at).ceilSecond()), FedAt: int64(v.fedAt), Step: int(v.retry),
		}
		if last := sa.s.mail.diagnostics.Get(r.diagnostic); last != nil {
			one.Notary, one.Text = last.notary, last.text
		}
		to.Recipients = append(to.Recipients, one)
		return
	}
}
