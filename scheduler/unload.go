package scheduler

// Limits on memory (PARAMactive-limit, PARAMrecipient-limit), and how a message is unloaded.
//
// A message that is not loaded stays in the queue: its vertices are due or wait as before. Of the
// recipients of a vertex there remains a summary, in the place of the first: how many are open,
// and the fewest attempts. Their last replies are forgotten. load.go says when the message is
// loaded again.
//
// A message is unloaded at the end of a Step in which something has happened to it: it has
// arrived, it was deferred, something about it was written, or a reload has set a limit. If any of
// it is due, it is unloaded only while more than a limit is loaded, otherwise while more than half
// of a limit is. So the file of a message is read at most once for each attempt and each write,
// and what waits long leaves room for what is due.

// loads unloads messages and loads them again.
type loads struct {
	s *Scheduler

	// What counts towards the limits: what is loaded, but for what lies under hold/.
	messages, recipients int

	notLoaded  int         // messages
	candidates []candidate // messages that may be unloaded when the Step ends
	wanted     []candidate // messages to be loaded because something must be written, in order
	reading    int         // loads under way
	retry      timer       // when to load again what is wanted, after a file could not be read
}

// candidate is a message, if it is still there.
type candidate struct {
	message  messageRef
	sequence int64
}

// candidate returns the message; nil: it has left.
func (ml *mail) candidate(c candidate) *message {
	if m := ml.messages.At(c.message); m.sequence == c.sequence {
		return m
	}
	return nil
}

// over reports whether more than a limit is loaded, divided by a number.
func (lo *loads) over(divisor int) bool {
	active, most := lo.s.rules.config.ActiveLimit, lo.s.rules.config.RecipientLimit
	return active > 0 && divisor*lo.messages > active || most > 0 && divisor*lo.recipients > most
}

// count counts a message under hold/ or towards the limits (1), or no longer (-1).
func (lo *loads) count(m *message, sign int) {
	switch {
	case m.flags&underHold != 0:
		lo.s.orders.underHold += sign
	case m.flags&unloaded == 0:
		lo.messages += sign
		lo.recipients += sign * int(m.open)
	}
}

// considerUnloading notes that a message may be unloaded when the Step ends. Until then its
// memory is in use.
func (lo *loads) considerUnloading(m *message) {
	if lo.over(2) {
		lo.candidates = append(lo.candidates, candidate{m.ref, m.sequence})
	}
}

// unloadCandidates unloads those messages that may be unloaded now.
func (lo *loads) unloadCandidates() {
	for _, c := range lo.candidates {
		if m := lo.s.mail.candidate(c); m != nil && lo.over(2) && lo.mayUnload(m) {
			lo.unload(m)
		}
	}
	lo.candidates = lo.candidates[:0]
}

// mayUnload reports whether nobody works on a message, nothing is known of it that the file does
// not say, and it is not needed first.
func (lo *loads) mayUnload(m *message) bool {
	if m.open == 0 || m.pendingWrites > 0 || m.flags&(removing|moving|underHold|untagged|unloaded) != 0 {
		return false
	}
	if x := lo.s.mail.extrasOf(m); x != nil && len(x.sets) > 0 {
		return false
	}
	over := lo.over(1)
	for _, v := range lo.s.mail.openVertices(m) {
		// A report counts even if it comes after the end of its line.
		mayBeReported := v.unanswered && lo.s.agents.byID[v.agent] != nil
		if v.state != waiting && (v.state != due || !over) || mayBeReported || lo.s.orders.waiting[v.ref] != nil {
			return false
		}
	}
	return true
}

func (lo *loads) unload(m *message) {
	lo.count(m, -1)
	m.flags |= unloaded
	lo.notLoaded++
	for _, v := range lo.s.mail.openVertices(m) {
		lo.s.mail.summarize(v)
		lo.s.mail.threadOf(v).notLoaded++
	}
}

// summarize replaces the recipients of a vertex by one that stands for all that are open.
func (ml *mail) summarize(v *vertex) {
	all, tried := recipient{state: open, attempts: ^uint16(0)}, true
	for i := range ml.lenOf(v) {
		r := ml.recipient(v, i)
		ml.clearDiagnostic(r)
		if r.state == done {
			continue
		}
		if all.offset == 0 {
			all.offset = r.offset
		}
		all.attempts = min(all.attempts, r.attempts)
		all.flags |= r.flags & mustAttempt
		tried = tried && r.tried()
	}
	if !tried {
		all.flags |= triedBefore
	}
	v.first = all
	if v.more != 0 {
		ml.moreRecipients.At(v.more).list = nil
	}
}
