package scheduler

import (
	"time"

	"zsched/scheduler/limit"
)

// Warm restart: what the scheduler knows about the mail, but the control files do not
// contain, is saved in POSTOFFICE/.scheduler.state (scheduler-state(5)). restore.go
// restores it.

// Saved is one part of the state to be saved. The slices are reused from part to
// part.
type Saved struct {
	Recipients []SavedRecipient
	Threads    []SavedThread
	Rates      []SavedRate
	Rules      []SavedRule
}

// SavedRecipient is the saved state of a recipient that was tried. Times are in
// seconds since the epoch, as in the file, because there may be ten million
// recipients.
type SavedRecipient struct {
	Message    MessageID
	Offset     int64 // in the control file
	ModifiedAt int64 // mtime of the message file: the number may be that of a later message
	Attempts   int
	NextAt     int64 // when it is due, rounded up; 0: it does not wait
	FedAt      int64 // last, rounded down; 0: never
	Step       int   // index in Retries of the next step
	// DestinationFailed and InRetryStep are as in vertex.
	DestinationFailed, InRetryStep bool
	Notary, Text                   string // the last report; both empty: none
}

// SavedThread is the saved state of a thread. All fields except the names are zero
// if there is no longer anything to save.
type SavedThread struct {
	Channel, Host    string
	SuspendedUntil   int64 // in seconds since the epoch, rounded up; 0: not suspended
	Step             int   // index in Retries of the next suspension
	InRetryStep      bool  // as in thread
	Dead             bool  // the destination failed, and nothing was delivered since
	Window           int   // sessions; 0: as many as at the start
	Success, Failure float64
	FailedCohorts    float64
	Notary, Text     string // the last report on any of its recipients

	PaidAt  int64  // when all tokens of its rate will be there again, rounded up; 0: they are
	Site    string // as an agent reported it; "": not known
	SiteAt  int64  // when the site is forgotten
	Effects []SavedEffect
}

// SavedEffect is the effect of a reply rule on a thread.
type SavedEffect struct {
	Rule         ReplyKey
	Since, Until int64 // in seconds since the epoch
}

// minSavedToken is how long a token of a rate must take for the tokens to be saved:
// those of faster rates are back soon after a restart anyway.
const minSavedToken = 10 * time.Second

// maxSavedEffects and maxSavedExpression bound the line of a thread in the file.
const (
	maxSavedEffects    = 4
	maxSavedExpression = 500
)

// saveShaping adds the shaping of a thread and its site to what is saved about it.
func (q *queue) saveShaping(saved *SavedThread, key threadKey, x *shaping) {
	if name, until := q.siteNames.Find(time.Duration(q.now), key); name != "" {
		saved.Site, saved.SiteAt = name, int64(q.dateAt(instant(until)).ceilSecond())
	}
	if x == nil {
		return
	}
	if x.rate.Per() >= minSavedToken && x.rate.Owed(q.both()) {
		saved.PaidAt = int64(q.dateAt(instant(x.rate.PaidAt)).ceilSecond())
	}
	for _, e := range x.effects {
		if r := e.state.rule; len(saved.Effects) < maxSavedEffects && len(r.Expression) <= maxSavedExpression {
			saved.Effects = append(saved.Effects, SavedEffect{Rule: r.Key(), Since: q.dateAt(e.since).unix(), Until: int64(q.dateAt(e.until).ceilSecond())})
		}
	}
}

// saving notes what has changed since it was last saved.
type saving struct {
	tracked bool // changes are noted
	// changed has vertices and records, each once, with the flag unsaved in their
	// first recipient. Entries without the flag are out of date.
	changed []vertexRef
	index   int // in changed, of the next to be saved
	part    int // of its recipients, the next to be saved
	threads []threadKey
	rates   []*bucket // that several threads share
	lost    bool      // there were too many changes; everything must be saved
	passes  int       // open SavePasses
}

// maxChanged bounds the changes that are noted while nobody saves them.
const maxChanged = 1 << 22

// TrackChanges begins to note the changes that SaveChanges returns.
func (s *Scheduler) TrackChanges() { s.saving.tracked = true }

// ChangesLost reports whether there were too many changes, so that SaveChanges
// does not return all of them. It is false again after SaveAll.
func (s *Scheduler) ChangesLost() bool { return s.saving.lost }

// noteChange notes that a vertex is to be saved.
func (ml *mail) noteChange(v *vertex) {
	if ml.saving.tracked && v.first.flags&unsaved == 0 && ml.hasRoomForChange() {
		v.first.flags |= unsaved
		ml.saving.changed = append(ml.saving.changed, v.ref)
	}
}

// noteRecordChange does the same for a record.
func (ml *mail) noteRecordChange(n recordRef) {
	rec := ml.records.items.at(n)
	if ml.saving.tracked && rec.first.flags&unsaved == 0 && ml.hasRoomForChange() {
		rec.first.flags |= unsaved
		ml.saving.changed = append(ml.saving.changed, n.inThread())
	}
}

func (ml *mail) hasRoomForChange() bool {
	sv := &ml.saving
	if len(sv.changed) >= maxChanged {
		sv.changed, sv.index, sv.part, sv.lost = nil, 0, 0, true
	}
	return !sv.lost
}

// noteMove is called when a vertex has become a record, or the other way round:
// the change is noted under the new number. During a pass it is always noted,
// because the pass may miss what moves.
func (ml *mail) noteMove(ref vertexRef, first *recipient) {
	if ml.saving.passes == 0 && first.flags&unsaved == 0 {
		return
	}
	first.flags &^= unsaved
	if ref.isRecord() {
		ml.noteRecordChange(ref.record())
	} else {
		ml.noteChange(ml.vertices.at(ref))
	}
}

// noteThreadChange notes that a thread is to be saved.
func (ml *mail) noteThreadChange(t *thread) {
	if !ml.saving.tracked || t.unsaved || ml.saving.lost {
		return
	}
	if len(ml.saving.threads) >= maxChanged {
		ml.saving.threads, ml.saving.lost = nil, true
		return
	}
	t.unsaved = true
	ml.saving.threads = append(ml.saving.threads, t.key)
}

// SaveChanges replaces the contents of to with about n of the changes, and reports
// whether there are more.
func (s *Scheduler) SaveChanges(to *Saved, n int) (more bool) {
	to.reset()
	sv := &s.saving
	if s.saveShared(to, n) {
		return true
	}
	for len(sv.threads) > 0 && !to.full(n) {
		key := sv.threads[0]
		sv.threads = sv.threads[1:]
		if t := s.threads[key]; t != nil {
			s.saveThread(to, t)
		} else {
			gone := SavedThread{Channel: key.channel, Host: key.host}
			s.saveShaping(&gone, key, nil)
			to.Threads = append(to.Threads, gone)
		}
	}
	for looked := 0; sv.index < len(sv.changed) && !to.full(n) && looked < wakeSlice; looked++ {
		ref := sv.changed[sv.index]
		if sv.part == 0 && !s.isUnsaved(ref) {
			sv.index++
			continue
		}
		if sv.part = s.saveRecipients(to, ref, sv.part, n); sv.part == 0 {
			sv.index++
		}
	}
	if sv.index < len(sv.changed) || len(sv.threads) > 0 {
		return true
	}
	if sv.threads = nil; cap(sv.changed) > wakeSlice {
		sv.changed = nil
	}
	sv.changed, sv.index = sv.changed[:0], 0
	return false
}

func (to *Saved) reset() {
	clear(to.Recipients)
	clear(to.Threads)
	clear(to.Rates)
	clear(to.Rules)
	to.Recipients, to.Threads, to.Rates, to.Rules = to.Recipients[:0], to.Threads[:0], to.Rates[:0], to.Rules[:0]
}

// Len is the number of items.
func (to *Saved) Len() int {
	return len(to.Recipients) + len(to.Threads) + len(to.Rates) + len(to.Rules)
}

func (to *Saved) full(n int) bool { return to.Len() >= n }

func (ml *mail) isUnsaved(ref vertexRef) bool {
	if ref.isRecord() {
		return ml.records.items.at(ref.record()).first.flags&unsaved != 0
	}
	return ml.vertices.at(ref).first.flags&unsaved != 0
}

// SavePass goes through everything that is to be saved, a part at a time. What
// changes during the pass is among the changes that SaveChanges returns later.
type SavePass struct {
	s      *Scheduler  // nil: closed
	unused []SavedRate // still to be saved, before the rates and rules in saving
	thread threadRef   // the next ones
	record recordRef
	vertex vertexRef
	part   int // of the recipients of record or vertex
}

// SaveAll begins a pass over everything. The pass must be read to its end, or
// closed. It includes the changes so far.
func (s *Scheduler) SaveAll() *SavePass {
	sv := &s.saving
	sv.changed, sv.index, sv.part, sv.threads, sv.lost = nil, 0, 0, nil, false
	sv.passes++
	return &SavePass{s: s, unused: s.noteShared(), thread: 1, record: 1, vertex: 1}
}

// Close ends a pass. Closing it twice does nothing.
func (p *SavePass) Close() {
	if p.s != nil {
		p.s.saving.passes--
		p.s = nil
	}
}

// Next replaces the contents of to with the next part, of about n items. more is
// false at the end; the pass is then closed.
func (p *SavePass) Next(to *Saved, n int) (more bool) {
	to.reset()
	s := p.s
	if s == nil {
		return false
	}
	for len(p.unused) > 0 && !to.full(n) {
		to.Rates = append(to.Rates, p.unused[0])
		p.unused = p.unused[1:]
	}
	if s.saveShared(to, n) {
		return true
	}
	for looked := 0; looked < 4*n && !to.full(n); looked++ {
		switch {
		case p.thread <= s.threadTable.last:
			if t := *s.threadTable.at(p.thread); t != nil {
				s.saveThread(to, t)
			}
			p.thread++
		case p.record <= s.records.items.last:
			if p.part = s.saveRecipients(to, p.record.inThread(), p.part, n); p.part == 0 {
				p.record++
			}
		case p.vertex <= s.vertices.last:
			if p.part = s.saveRecipients(to, p.vertex, p.part, n); p.part == 0 {
				p.vertex++
			}
		default:
			p.Close()
			return false
		}
	}
	return true
}

// saveThread saves a thread. A thread without any state is saved only if it has
// changed, so that what was saved before no longer applies.
func (q *queue) saveThread(to *Saved, t *thread) {
	changed := t.unsaved
	t.unsaved = false
	shaped := t.shaping != nil || q.knownSite(t.key) != ""
	if !changed && !shaped && t.suspendedUntil == 0 && t.retry == 0 && t.window == (limit.Window{}) {
		return
	}
	saved := SavedThread{
		Channel: t.key.channel, Host: t.key.host, SuspendedUntil: int64(q.dateAt(t.suspendedUntil).ceilSecond()),
		Step: int(t.retry), InRetryStep: t.inRetryStep, Dead: t.window.Dead,
		Window: t.window.Size, Success: t.window.Success, Failure: t.window.Failure, FailedCohorts: t.window.FailedCohorts,
	}
	q.saveShaping(&saved, t.key, t.shaping)
	if last := q.diagnostics.get(t.diagnostic); last != nil {
		saved.Notary, saved.Text = last.notary, last.text
	}
	to.Threads = append(to.Threads, saved)
}

// saveRecipients saves the recipients of a vertex or of a record that were tried,
// from index i on. It returns the index at which to continue, or 0 at the end.
// The vertex may have left.
func (q *queue) saveRecipients(to *Saved, ref vertexRef, i, n int) (next int) {
	var one SavedRecipient
	var waits bool
	var count int
	var v *vertex
	var rec *record
	if ref.isRecord() {
		rec = q.records.items.at(ref.record())
		if rec.state == 0 {
			return 0
		}
		rec.first.flags &^= unsaved
		waits, count = rec.state == waiting, q.recordLen(rec)
		one = SavedRecipient{
			Message: rec.id, ModifiedAt: rec.modifiedAt.unix(), NextAt: int64(q.dateAt(rec.wakeAt.instant()).ceilSecond()), FedAt: int64(rec.fedAt), Step: int(rec.retry),
			DestinationFailed: rec.flags&recordDestinationFailed != 0, InRetryStep: rec.flags&recordInRetryStep != 0,
		}
	} else {
		v = q.vertices.at(ref)
		if v.state == 0 {
			return 0
		}
		v.first.flags &^= unsaved
		m := q.messageOf(v)
		waits, count = v.state == waiting, v.len()
		one = SavedRecipient{
			Message: m.id, ModifiedAt: m.modifiedAt.unix(), NextAt: int64(q.dateAt(v.wakeAt).ceilSecond()), FedAt: int64(v.fedAt), Step: int(v.retry),
			DestinationFailed: v.destinationFailed, InRetryStep: v.inRetryStep,
		}
	}
	if !waits {
		one.NextAt = 0
	}
	for ; i < count; i++ {
		if to.full(n) {
			return i
		}
		var r *recipient
		if rec != nil {
			r = q.recordedRecipient(rec, i)
		} else {
			r = q.recipient(v, i)
		}
		if r.state == done || r.state == writing || r.attempts == 0 && !waits {
			continue
		}
		one.Offset, one.Attempts, one.Notary, one.Text = int64(r.offset), int(r.attempts), "", ""
		if last := q.diagnostics.get(r.diagnostic); last != nil {
			one.Notary, one.Text = last.notary, last.text
		}
		to.Recipients = append(to.Recipients, one)
	}
	return 0
}
