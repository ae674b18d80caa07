package spool

// Loading control files: reading and answering. messagefile.go finds the message file. A
// scheduler that runs as root takes over files of other users (see
// internal/postoffice/control.go).

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/scheduler"
)

const (
	// loadLimit bounds the names that a loader gets at once.
	loadLimit = batchLimit

	// A file that was changed within graceTime may still be incomplete.
	graceTime = time.Minute
)

// Load reads these control files. The result for each name is Loaded or Refused,
// with a Triggered before it or instead of it. The receiver must remember which
// names it has passed to Load: a file whose name is passed again before its result
// comes is read twice. Load keeps the slice.
func (s *Spool) Load(names []Name) {
	for part := range slices.Chunk(names, loadLimit) {
		s.loads.push(part)
	}
}

// loader is one goroutine that reads control files. buf is reused from file to file.
type loader struct {
	s   *Spool
	buf []byte
}

func (t *loader) run() {
	for {
		names, ok := t.s.loads.pop(t.s.queue.flush)
		if !ok || !t.s.standing.owned() {
			return
		}
		for _, n := range names {
			t.load(n)
		}
	}
}

func (t *loader) add(r Result) { t.s.queue.keep(r) }

// load reads one control file and adds its results.
func (t *loader) load(n Name) {
	place, _ := placeOf(n.Path)
	d, err := t.s.places.openControl(n.Path, &t.buf)
	defer d.close()
	if err != nil {
		t.reject(n, &d, err)
		return
	}
	if d.file.Name == "" && place == Queue {
		t.trigger(n, &d)
		return
	}
	if _, base := split(n.Path); d.file.Name != base {
		t.reject(n, &d, &malformed{"the i line says " + d.file.Name + ", which is not the file's name"})
		return
	}
	// The whole message waits for a live agent of an earlier scheduler, not only what it has
	// locked: the file must stay where the agent found it, a last line without an end may be
	// one that the agent is writing, and nothing in memory would keep an order, the expiry or
	// an agent that respects no locks (marking=scheduler) from the locked recipients.
	locks := locks{holders: &t.s.lockHolders}
	if pid := locks.any(d.file); pid != 0 {
		holder := "process " + strconv.Itoa(pid)
		if pid >= ctlfile.MaxPID {
			holder = "an agent of an earlier scheduler, which still runs"
		}
		t.refuse(n, Busy, "locked by "+holder)
		return
	}
	st, now, err := t.locate(n, &d)
	if err != nil {
		t.reject(now, &d, err)
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
	m := t.message(now, &d, &st)
	if hold, found := t.s.holds.holdOf(n.ID, ctlfile.SpoolID(n.ID, m.ModifiedAt), place); found {
		m.Hold, m.Released = hold.order, hold.released
	}
	if m.UnderHold = place == Hold; !m.UnderHold {
		t.triggers(now, d.file)
	}
	t.s.places.foundIn(now.Path)
	t.s.refusals.remove(n.Path)
	t.add(m)
}

func (t *loader) triggers(n Name, f *ctlfile.File) {
	for _, value := range f.Triggers {
		t.add(Triggered{n, ctlfile.TriggerHost(value), strings.Clone(value)})
	}
}

// trigger adds the results of a file that has no message, and removes the file.
func (t *loader) trigger(n Name, d *controlFile) {
	t.triggers(n, d.file)
	if err := postoffice.Remove(t.s.places.pairs[Queue].transport, n.Path); err != nil {
		t.refuse(n, Unreadable, "unlink: "+err.Error())
		return
	}
	t.s.refusals.remove(n.Path)
}

// reject adds the result of a file that cannot become a message because of an
// error, and moves it to corrupt/ if it is malformed.
func (t *loader) reject(n Name, d *controlFile, err error) {
	var bad *malformed
	switch {
	case errors.Is(err, errGone), errors.Is(err, errOtherDir): // the sweep finds it when its directory is back
		t.refuse(n, Vanished, err.Error())
	case errors.Is(err, errChanged), errors.Is(err, postoffice.ErrInUse):
		t.refuse(n, Busy, err.Error())
	case !errors.As(err, &bad):
		t.refuse(n, Unreadable, err.Error())
	case time.Since(time.Unix(d.st.Mtim.Unix())).Abs() < graceTime:
		t.refuse(n, Unfinished, err.Error())
	default:
		t.add(t.s.discard(n, bad.reason))
	}
}

// discard moves a malformed message to corrupt/.
func (s *Spool) discard(n Name, reason string) Refused {
	var st unix.Stat_t
	place, path := placeOf(n.Path)
	known := postoffice.Stat(s.places.pairs[place].queue, path, &st) == nil
	if err := s.places.quarantine(n.Path, reason); err != nil {
		return s.refused(n, Unreadable, reason+"; "+err.Error())
	}
	r := s.refused(n, Quarantined, reason)
	if known {
		r.ModifiedAt = time.Unix(st.Mtim.Unix())
	}
	return r
}

func (t *loader) refuse(n Name, why Refusal, reason string) {
	t.add(t.s.refused(n, why, reason))
}

// refused returns the result for a refused name, and remembers it if its file will be read
// again.
func (s *Spool) refused(n Name, why Refusal, reason string) Refused {
	if why != Busy && why != Unfinished && why != Unreadable {
		s.refusals.remove(n.Path)
		return Refused{Name: n, Why: why, Reason: reason, Tries: 1}
	}
	since := time.Now()
	var st unix.Stat_t
	if place, path := placeOf(n.Path); postoffice.Stat(s.places.pairs[place].transport, path, &st) == nil {
		since = time.Unix(st.Mtim.Unix())
	}
	return Refused{Name: n, Why: why, Reason: reason, Tries: s.refusals.add(n, since, reason)}
}

// message makes the Loaded of a control file. It copies the strings: those of
// the file share one copy of its whole text.
func (t *loader) message(n Name, d *controlFile, st *unix.Stat_t) Loaded {
	f := d.file
	_, path := placeOf(n.Path)
	m := Loaded{Name: n, Message: scheduler.Message{
		ID:         scheduler.MessageID(n.ID),
		Path:       path,
		MessageID:  strings.Clone(f.MessageID),
		NullSender: f.NullSender,
		Owner:      st.Uid,
		ModifiedAt: time.Unix(st.Mtim.Unix()),
		ChangedAt:  time.Unix(d.st.Ctim.Unix()),
		Size:       st.Size,
		Owes:       t.s.notices.owes(f, false),
	}}
	if last := len(f.Senders) - 1; last >= 0 {
		m.Sender = strings.Clone(f.Senders[last].User)
	}
	from := ctlfile.ParseSource(f.Source)
	m.Source = strings.Clone(from.Name)
	if t.s.options.Users {
		m.Client = strings.Clone(from.Client)
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
				Channel: strings.Clone(r.RouteChannel()),
				Host:    strings.Clone(r.RouteHost()),
				Class:   r.Class,
				Notify:  r.Notify,
				Delays:  r.Delays,
			})
			if r.Origin != "" {
				if from, err := ctlfile.ParseOrigin(r.Origin); err == nil {
					m.Recipients[len(m.Recipients)-1].Attempts = from.Attempts
				}
			}
			if t.s.options.Users {
				last := &m.Recipients[len(m.Recipients)-1]
				last.User, last.Originals = strings.Clone(r.User), r.Originals()
				for j, address := range last.Originals {
					last.Originals[j] = strings.Clone(address)
				}
			}
		}
	}
	if t.s.options.Users && open < len(f.Recipients) {
		m.Done = t.done(f, len(f.Recipients)-open)
	}
	return m
}

// done returns the recipients that are tagged as done, at most as many as given.
func (t *loader) done(f *ctlfile.File, most int) []ctlfile.DoneRecipient {
	last := make(map[int64]*ctlfile.Diagnostic, len(f.Diagnostics))
	for i := range f.Diagnostics {
		last[f.Diagnostics[i].Recipient] = &f.Diagnostics[i]
	}
	all := make([]ctlfile.DoneRecipient, 0, most)
	for i := range f.Recipients {
		r := &f.Recipients[i]
		if r.Tag != ctlfile.Delivered && r.Tag != ctlfile.Failed {
			continue
		}
		one := ctlfile.DoneRecipient{Tag: r.Tag, Channel: strings.Clone(r.RouteChannel()), Host: strings.Clone(r.RouteHost()), User: strings.Clone(r.User)}
		if line := last[r.Offset]; line != nil {
			one.Notary, one.Text = strings.Clone(line.Notary), strings.Clone(line.Text)
		}
		all = append(all, one)
	}
	return all
}
