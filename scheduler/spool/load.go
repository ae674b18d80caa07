package spool

// Loading control files: reading, finding the message file, answering.

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

const (
	// loadLimit bounds what one loader does in one go.
	loadLimit = batchLimit
	// loadDelay is how long answers are kept for the rest of a batch, which
	// they are to be sorted with.
	loadDelay = 20 * time.Millisecond
	// wordLimit bounds a loader's memory of channels and hosts.
	wordLimit = 8192

	// When refused names are looked at again.
	busyRetry       = 32 * time.Second
	unfinishedRetry = 10 * time.Second
	unreadableRetry = 20 * time.Second
	// maxInUse is how long a control file that belonged to another user may
	// stay open for writing before it goes to quarantine.
	maxInUse = time.Hour
	// A file changed within graceTime may still be in the making.
	graceTime = time.Minute
)

// Load reads these control files. Each name is answered by Loaded or Refused, or
// by Triggered before it or in its place. The receiver knows which names it has
// asked for: a name that is given again before its answer is read twice. Load
// keeps names.
func (s *Spool) Load(names []Name) {
	s.queue.ask(len(names))
	for part := range slices.Chunk(names, loadLimit) {
		s.loads.push(part)
	}
}

// loader is one goroutine that reads control files. What it holds is only
// there to be used again.
type loader struct {
	s       *Spool
	buf     []byte
	words   map[string]string // channels and hosts, each once
	answers []dated
	results []Result
	names   int // that were read since the last answer
}

// dated is a result and the ctime, in nanoseconds, by which it is sorted.
// What is no message comes before all messages.
type dated struct {
	at     int64
	result Result
}

func newLoader(s *Spool) *loader {
	return &loader{s: s, buf: make([]byte, 64<<10), words: map[string]string{}}
}

func (t *loader) run() {
	for {
		names, ok := t.s.loads.pop()
		if !ok {
			return
		}
		startedAt := time.Now()
		for _, n := range names {
			t.load(n)
			t.names++
			// Each may have waited for a cold disk.
			if now := time.Now(); now.Sub(startedAt) > loadDelay {
				t.answer()
				startedAt = now
			}
		}
		t.answer()
	}
}

// answer hands out what there is, oldest control file first.
func (t *loader) answer() {
	slices.SortStableFunc(t.answers, func(a, b dated) int { return cmp.Compare(a.at, b.at) })
	for _, a := range t.answers {
		t.results = append(t.results, a.result)
	}
	t.s.queue.add(t.results, t.names)
	clear(t.answers)
	clear(t.results)
	t.answers, t.results, t.names = t.answers[:0], t.results[:0], 0
}

func (t *loader) add(r Result) { t.answers = append(t.answers, dated{0, r}) }

// take reads one control file and says what became of it.
func (t *loader) load(n Name) {
	d, err := readControl(t.s.control, t.s.pairs[Queue].transport, n.Path, unix.O_RDONLY, &t.buf)
	defer d.close()
	if err != nil {
		t.reject(n, &d, err)
		return
	}
	if d.file.Name == "" {
		t.trigger(n, &d)
		return
	}
	if _, base := split(n.Path); d.file.Name != base {
		t.reject(n, &d, &malformed{"the i line says " + d.file.Name + ", which is not the file's name"})
		return
	}
	locks := locks{writtenAt: time.Unix(d.st.Mtim.Unix())}
	if pid := locks.any(d.file); pid != 0 {
		t.refuse(n, Busy, "locked by process "+strconv.Itoa(pid))
		return
	}
	st, now, ok := t.place(n, &d)
	if !ok {
		return
	}
	err = errors.Join(d.truncateTorn(), d.settle(locks.held))
	if err == nil {
		err = d.recordLost()
	}
	if err != nil {
		t.reject(now, &d, err)
		return
	}
	t.triggers(now, d.file)
	t.s.refusals.remove(n.Path)
	t.answers = append(t.answers, dated{d.st.Ctim.Nano(), t.message(now, &d, &st)})
}

func (t *loader) triggers(n Name, f *ctlfile.File) {
	for _, value := range f.Triggers {
		t.add(Triggered{n, ctlfile.TriggerHost(value), strings.Clone(value)})
	}
}

// place finds the message file and brings both files to where they belong. It
// is false when it has given the answer itself.
func (t *loader) place(n Name, d *controlFile) (st unix.Stat_t, now Name, ok bool) {
	for range 2 {
		switch err := postoffice.Stat(t.s.pairs[Queue].queue, n.Path, &st); {
		case err == nil && postoffice.IsRegular(&st):
			now = t.s.rehash(n)
			d.path = now.Path
			return st, now, true
		case err != nil && err != unix.ENOENT:
			t.reject(n, d, err)
			return st, n, false
		}
		where, place, found, err := t.s.resumeMove(n)
		switch {
		case err != nil:
			t.reject(n, d, err)
			return st, n, false
		case found && place != Queue:
			t.refuse(n, Elsewhere, "its message file is in "+place.dir()+"queue; it has followed it")
			return st, n, false
		case !found:
			t.reject(n, d, &malformed{"there is no message file queue/" + n.Path})
			return st, n, false
		}
		n, d.path = where, where.Path
	}
	t.refuse(n, Unreadable, "its message file is being moved")
	return st, n, false
}

// trigger says what a file without a message asks for, and removes it.
func (t *loader) trigger(n Name, d *controlFile) {
	t.triggers(n, d.file)
	if err := postoffice.Remove(t.s.pairs[Queue].transport, n.Path); err != nil {
		t.refuse(n, Unreadable, "unlink: "+err.Error())
		return
	}
	t.s.refusals.remove(n.Path)
}

// reject answers for a file that is no message for this reason, and puts away
// what cannot be understood.
func (t *loader) reject(n Name, d *controlFile, err error) {
	var bad *malformed
	switch {
	case errors.Is(err, errGone):
		t.refuse(n, Vanished, err.Error())
	case errors.Is(err, errChanged):
		t.refuse(n, Busy, err.Error())
	case errors.Is(err, postoffice.ErrInUse):
		since := postoffice.InUseSince(&d.st)
		if since.IsZero() || time.Since(since) < t.s.inUseLimit {
			t.refuse(n, Busy, err.Error())
			return
		}
		t.add(t.s.discard(n, "it belonged to another user, and for an hour a process has had it open for writing"))
	case !errors.As(err, &bad):
		t.refuse(n, Unreadable, err.Error())
	case time.Since(time.Unix(d.st.Mtim.Unix())).Abs() < graceTime:
		t.refuse(n, Unfinished, err.Error())
	default:
		t.add(t.s.discard(n, bad.reason))
	}
}

// discard moves a message that cannot be understood to corrupt/.
func (s *Spool) discard(n Name, reason string) Refused {
	if err := s.quarantine(n.Path, reason); err != nil {
		return s.refused(n, Unreadable, reason+"; "+err.Error())
	}
	return s.refused(n, Quarantined, reason)
}

func (t *loader) refuse(n Name, why Refusal, reason string) {
	t.add(t.s.refused(n, why, reason))
}

// refused notes when a name is to be looked at again, if ever.
func (s *Spool) refused(n Name, why Refusal, reason string) Refused {
	var at time.Time
	switch why {
	case Busy:
		at = time.Now().Add(busyRetry)
	case Unfinished:
		at = time.Now().Add(unfinishedRetry)
	case Unreadable:
		at = time.Now().Add(unreadableRetry)
	}
	return Refused{n, why, reason, s.refusals.add(n, at)}
}

// message is the Loaded of a control file that was read and put in order. Its
// strings are its own: those of the file share one copy of all of its text.
func (t *loader) message(n Name, d *controlFile, st *unix.Stat_t) Loaded {
	f := d.file
	m := Loaded{
		Name:       n,
		LogID:      strings.Clone(f.LogID),
		Verbose:    strings.Clone(f.Verbose),
		NullSender: f.NullSender,
		Owner:      st.Uid,
		ModifiedAt: time.Unix(st.Mtim.Unix()),
		ChangedAt:  time.Unix(d.st.Ctim.Unix()),
		Size:       st.Size,
		Owes:       t.s.owes(f, false),
	}
	if last := len(f.Senders) - 1; last >= 0 {
		m.Sender = strings.Clone(f.Senders[last].User)
	}
	m.ErrorTo = m.Sender
	if f.ErrorTo != m.Sender {
		m.ErrorTo = strings.Clone(f.ErrorTo)
	}
	for _, id := range f.Obsoletes {
		m.Obsoletes = append(m.Obsoletes, strings.Clone(id))
	}
	open := 0
	for i := range f.Recipients {
		if f.Recipients[i].Tag == ctlfile.Open {
			open++
		}
	}
	m.Recipients = make([]ctlfile.OpenRecipient, 0, open)
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Tag == ctlfile.Open {
			m.Recipients = append(m.Recipients, ctlfile.OpenRecipient{
				Offset:  r.Offset,
				Channel: t.word(r.RouteChannel()),
				Host:    t.word(r.RouteHost()),
				Class:   r.Class,
				Notify:  r.Notify,

				Delays:    delays(f, r),
				DeliverBy: ctlfile.ParseDeliverBy(r.DSN),
			})
			if t.s.options.Users {
				m.Recipients[len(m.Recipients)-1].User = strings.Clone(r.User)
			}
		}
	}
	return m
}

// word returns the one copy of a channel or host that all messages share.
func (t *loader) word(s string) string {
	if w, ok := t.words[s]; ok {
		return w
	}
	if len(t.words) >= wordLimit {
		clear(t.words)
	}
	s = strings.Clone(s)
	t.words[s] = s
	return s
}
