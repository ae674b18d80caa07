package daemon

// Hold records: they are read at the start, before any mail.

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

// loadHolds reads the records, and holds the threads that they name: the last
// record that names a thread counts. If its time is over, the hold ends at once. If a record
// is damaged, what is readable is held. If one cannot be read, for example because all
// descriptors of the system are in use, it tries again for a while and then returns an error:
// mail that an administrator held would be delivered.
func (l *Loop) loadHolds(s Spool) error {
	records, err := s.LoadHolds()
	for try := 1; err != nil && !errors.Is(err, spool.ErrDamagedHolds); try++ {
		if try == holdTries {
			return err
		}
		l.log.Error().Err(err).Msg("trying again to read the hold records")
		time.Sleep(holdPause)
		records, err = s.LoadHolds()
	}
	if err != nil {
		l.log.Error().Err(err).Msg("hold records are damaged: what they name is held until it is released")
	}
	for i := range records {
		r := &records[i]
		for _, t := range r.Threads {
			l.Step(scheduler.HeldThread{Channel: t.Channel, Host: t.Host, Held: true, HoldOrder: r.Hold})
		}
	}
	return nil
}
