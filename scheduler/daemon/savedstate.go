package daemon

// Warm restart: POSTOFFICE/.scheduler.state is read at the start, before any mail, and
// written every minute and at the end.

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	"zsched/scheduler/state"
)

// restoreState tells the core what an earlier process knew. What it knew
// about mail is kept until all mail of the start is loaded. Orders on a message that is locked then are
// kept until it is loaded.
func (d *Daemon) restoreState() {
	l, path := &d.loop, d.options.State
	if path == "" {
		return
	}
	began := time.Now()
	table, err := state.ReadFile(path)
	if err != nil {
		l.log.Error().Err(err).Msg("the saved state could not be read, or only a part of it: mail may be tried early, and orders that waited for agents are lost")
	}
	l.log.Info().Int("recipients", table.Recipients()).Int("skipped", table.Skipped).
		Dur("ms", time.Since(began)).Msg("saved state read")
	l.saved = table
	l.stepAll(table.Events())
}

// addSaved adds to a message what an earlier process knew of it.
func (l *Loop) addSaved(m *scheduler.Message) {
	if l.saved == nil {
		return
	}
	m.Orders = l.saved.Orders(m)
	if !m.Released {
		m.Saved = l.saved.Of(m)
	}
}

const (
	// savePeriod is how often changes are saved, unless Options says otherwise.
	savePeriod = time.Minute
	// saveShare is which part of the time a save may take: with a long queue there are fewer.
	saveShare = 50
	// saveSlice is how many items are fetched with one question to the loop.
	saveSlice = 256
)

// saver saves what the core knows into a new file that replaces the one before. It has a
// goroutine of its own, which asks the loop for a slice at a time and writes it. Nothing is
// saved before all mail of the start is loaded: until then the file of the earlier process
// knows more.
type saver struct {
	path   string
	ask    func(func(*Loop)) error
	owned  func() error // returns why nothing may be written any more, or nil
	steps  uint64       // of the loop, at the last save
	failed bool         // the last save failed, and that was logged
	log    *zerolog.Logger
}

// startSaver starts the saver. The function that it returns, which is called after
// the loop has ended, stops it and saves for the last time.
func (d *Daemon) startSaver() (stop func()) {
	o := &d.options
	if o.State == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	sv := &saver{path: o.State, log: &o.Log, owned: o.Owned}
	sv.ask = func(f func(*Loop)) error { return d.Ask(ctx, f) }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sv.keepState(ctx, o.SavePeriod)
	}()
	return func() {
		cancel()
		<-ended
		sv.ask = func(f func(*Loop)) error {
			f(&d.loop)
			return nil
		}
		if sv.save() == nil && sv.failed {
			sv.log.Error().Msg("the state is not saved: mail may be tried early, and orders that waited for agents are lost")
		}
	}
}

// keepState saves every period until ctx is done.
func (sv *saver) keepState(ctx context.Context, period time.Duration) {
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		if sv.save() != nil {
			return
		}
		timer.Reset(max(period, saveShare*time.Since(began)))
	}
}

// save saves everything, if something may have changed. The error says that the loop has
// ended, or that the postoffice was taken over.
func (sv *saver) save() error {
	if err := sv.owned(); err != nil {
		return err
	}
	var pass *scheduler.SavePass
	err := sv.ask(func(l *Loop) {
		if l.loaded && l.steps != sv.steps {
			sv.steps, pass = l.steps, l.core.Save()
		}
	})
	if err != nil || pass == nil {
		return err
	}
	err, failure := sv.write(pass)
	switch {
	case err != nil || sv.failed == (failure != nil):
	case failure != nil:
		sv.log.Error().Err(failure).Msg("the state cannot be saved")
	default:
		sv.log.Info().Msg("the state can be saved again")
	}
	if sv.failed = failure != nil; sv.failed {
		sv.steps = 0
	}
	return err
}

// write writes a new file and puts it in its place. err is that of the loop, failure that of
// the file.
func (sv *saver) write(pass *scheduler.SavePass) (err, failure error) {
	file, failure := state.Create(sv.path)
	if failure != nil {
		return nil, failure
	}
	defer file.Close()
	var part scheduler.Saved
	err = sv.ask(func(l *Loop) {
		if l.saved != nil {
			part.Orders = l.saved.LateOrders()
		}
	})
	if err != nil {
		return err, nil
	}
	if failure := file.Write(&part); failure != nil {
		return nil, failure
	}
	for more := true; more; {
		if err := sv.ask(func(*Loop) { more = pass.Next(&part, saveSlice) }); err != nil {
			return err, nil
		}
		if failure := file.Write(&part); failure != nil {
			return nil, failure
		}
	}
	return nil, file.Commit()
}
