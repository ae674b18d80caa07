package daemon

// Warm restart: the reading of POSTOFFICE/.scheduler.state at the start.

import (
	"time"

	"zsched/scheduler"
	"zsched/scheduler/state"
)

const (
	// maxParked bounds the recipients of the messages that wait for the file to
	// be read. Further messages are loaded again afterwards.
	maxParked = 1 << 17
	// restoreSlice is how many rates, threads or messages are restored in one turn.
	restoreSlice = 256
)

// restore has what an earlier process knew about the mail. The file is read in a
// goroutine of its own. Until it is read, a message that may be in the file is
// parked; one that is newer than the file goes on.
type restore struct {
	loop      *Loop
	writtenAt time.Time           // of the file; zero: there is none
	tables    chan *state.Table   // the file, when it has been read
	table     *state.Table        // nil: not read yet, or no longer needed
	events    []scheduler.Event   // of the table, about rates and threads, for the core
	parked    []scheduler.Message // that wait for the file
	waiting   int                 // recipients of those
	dropped   bool                // a message was not parked, because there were too many
	next      chan struct{}       // has an element while threads or messages are left
	done      bool                // nothing is parked any more
}

// begin begins to read the file, if there is one.
func (r *restore) begin(o *Options) {
	if o.State != "" {
		r.writtenAt = state.WrittenAt(o.State)
	}
	if r.writtenAt.IsZero() {
		r.done = true
		r.loop.remember(nil)
		return
	}
	read := o.ReadState
	if read == nil {
		read = state.ReadFile
	}
	log := r.loop.log
	go func() {
		began := time.Now()
		table, err := read(o.State)
		if err != nil {
			log.Error().Err(err).Msg("the saved state could not be read, or only a part of it: mail may be tried early")
		}
		log.Info().Int("recipients", table.Recipients()).Int("skipped", table.Skipped).
			Dur("ms", time.Since(began)).Msg("saved state read")
		r.tables <- table // the channel has room for it
	}()
}

// read begins to restore what the file says.
func (r *restore) read(t *state.Table) {
	r.table, r.events = t, t.Events()
	r.loop.remember(t.Nodes())
	r.next <- struct{}{}
}

// ready reports whether a message that was loaded can be given to the core. If
// not, it is parked, or dropped if too many are.
func (r *restore) ready(m *scheduler.Message) (ready, parked bool) {
	switch {
	case r.done, r.table != nil && len(r.events) == 0:
		return true, false
	case state.NewerThan(r.writtenAt, m, r.loop.now):
		return true, false
	case r.waiting+len(m.Recipients) > maxParked && r.waiting > 0:
		r.dropped = true
		return false, false
	}
	r.waiting += len(m.Recipients)
	r.parked = append(r.parked, *m)
	return false, true
}

// step gives the core a slice of what the file says about rates and threads and, after all
// of that, of the messages.
func (r *restore) step() {
	l := r.loop
	for range restoreSlice {
		switch {
		case len(r.events) > 0:
			l.Step(r.events[0])
			r.events = r.events[1:]
		case len(r.parked) > 0:
			m := r.parked[0]
			r.parked = r.parked[1:]
			delete(l.intake.taking, uint64(m.ID))
			l.intake.arrived(m)
		default:
			r.done, r.parked = true, nil
			return
		}
	}
	r.next <- struct{}{}
}

// of returns what the file says about the recipients of a message.
func (r *restore) of(m *scheduler.Message) []scheduler.SavedRecipient {
	if r.table == nil || m.Released {
		return nil
	}
	return r.table.Of(m)
}

// end drops the table.
func (r *restore) end() {
	r.table = nil
	r.loop.Step(scheduler.AllLoaded{})
}
