package daemon

// Hold records: they are read at the start, before any mail, and written again if hold/ was
// removed.

import (
	"errors"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// How often loadHolds tries to read the records, and the time between two tries.
const (
	holdTries = 10
	holdPause = time.Second
)

// loadHolds reads the records, and holds and suspends the threads that they name. If a record
// is damaged, what is readable is held. If one cannot be read, for example because all
// descriptors of the system are in use, it tries again for a while and then returns an error:
// mail that an administrator held would be delivered.
func (l *Loop) loadHolds(s Spool) error {
	var records []spool.HoldRecord
	for try := 1; ; try++ {
		var err error
		records, err = s.LoadHolds()
		switch {
		case err == nil:
		case errors.Is(err, spool.ErrDamagedHolds):
			l.log.Error().Err(err).Msg("hold records are damaged: what they name is held until it is released")
		case try == holdTries:
			return err
		default:
			l.log.Error().Err(err).Msg("trying again to read the hold records")
			time.Sleep(holdPause)
			continue
		}
		break
	}
	for i := range records {
		r := &records[i]
		for _, t := range r.Threads {
			switch o := scheduler.HoldOrder(r.HoldOrder); {
			case r.Ended(l.now):
			case r.Suspended:
				l.Step(scheduler.SuspendedThread{Channel: t.Channel, Host: t.Host, HoldOrder: o})
			default:
				l.Step(scheduler.HeldThread{Channel: t.Channel, Host: t.Host, Held: true, HoldOrder: o})
			}
		}
	}
	return nil
}

// recordAgain writes the records of all held and suspended threads: hold/ is another directory
// than the one that had them. If it fails, the end of the next sweep tries again.
func (d *Daemon) recordAgain() {
	l := &d.loop
	var records []spool.HoldRecord
	for _, list := range []struct {
		threads   []scheduler.ThreadOrder
		suspended bool
	}{{l.core.HeldThreads(), false}, {l.core.SuspendedThreads(), true}} {
		for _, t := range list.threads {
			records = append(records, spool.HoldRecord{
				HoldOrder: spool.HoldOrder(t.HoldOrder), Suspended: list.suspended, Threads: []spool.Thread{{Channel: t.Channel, Host: t.Host}},
			})
		}
	}
	d.recording.Go(func() {
		for _, r := range records {
			if err := d.options.Spool.RecordHold(r); err != nil {
				l.log.Error().Err(err).Msg("held threads are not recorded, which is tried again; a restart would release them")
				d.unrecorded.Store(true)
				return
			}
		}
		l.log.Info().Int("threads", len(records)).Msg("held threads are recorded again")
	})
}
