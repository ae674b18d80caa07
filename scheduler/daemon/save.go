package daemon

// Warm restart: the writing of POSTOFFICE/.scheduler.state.

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"zsched/scheduler"
	"zsched/scheduler/state"
)

const (
	// savePeriod is how often changes are saved, unless Options says otherwise.
	savePeriod = time.Minute
	// saveSlice is how many items are fetched with one question to the loop.
	saveSlice = 256
)

// saver saves what the core knows, every minute and at the end, into a new file that
// replaces the one before. It has a goroutine of its own, which asks the loop for a slice at
// a time and writes it. Nothing is saved before all mail of the start is loaded: until then
// the file of the earlier process knows more.
type saver struct {
	path   string
	ask    func(func(*Loop)) error
	owned  func() error // returns why nothing may be written any more, or nil
	steps  uint64       // of the loop, at the last save
	failed bool         // the last save failed, and that was logged
	period time.Duration
	log    *zerolog.Logger
}

// saveShare is which part of the time a save may take: with a long queue there are fewer.
const saveShare = 50

// keepState saves every period until ctx is done.
func (sv *saver) keepState(ctx context.Context) {
	timer := time.NewTimer(sv.period)
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
		timer.Reset(max(sv.period, saveShare*time.Since(began)))
	}
}

// save saves everything, if something may have changed. The error says that the loop has
// ended, or that the postoffice was taken over.
func (sv *saver) save() error {
	if err := sv.owned(); err != nil {
		return err
	}
	var wanted bool
	var nodes []string // of the cluster; nil: there is no cluster
	var pass *scheduler.SavePass
	err := sv.ask(func(l *Loop) {
		if wanted = l.restore.done && l.loaded && l.steps != sv.steps; wanted {
			sv.steps, nodes, pass = l.steps, l.nodes(), l.core.Save()
		}
	})
	if err != nil || !wanted {
		return err
	}
	err, failure := sv.write(nodes, pass)
	if err == nil {
		sv.note(failure)
	}
	return err
}

// write writes a new file and puts it in its place. err is that of the loop, failure that of
// the file.
func (sv *saver) write(nodes []string, pass *scheduler.SavePass) (err, failure error) {
	file, failure := state.Create(sv.path)
	if failure != nil {
		return nil, failure
	}
	defer file.Close()
	if nodes != nil {
		file.WriteNodes(nodes)
	}
	var part scheduler.Saved
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

// note logs an error once, until saving works again.
func (sv *saver) note(failure error) {
	switch {
	case sv.failed == (failure != nil):
	case failure != nil:
		sv.log.Error().Err(failure).Msg("the state cannot be saved; this is tried again every minute")
	default:
		sv.log.Info().Msg("the state can be saved again")
	}
	if sv.failed = failure != nil; sv.failed {
		sv.steps = 0
	}
}

// startSaver starts the saver. The function that it returns, which is called after
// the loop has ended, stops it and saves for the last time.
func (d *Daemon) startSaver() (stop func()) {
	o := &d.options
	if o.State == "" {
		return func() {}
	}
	l := &d.loop
	ctx, cancel := context.WithCancel(context.Background())
	sv := &saver{path: o.State, period: o.SavePeriod, log: &o.Log, ask: func(f func(*Loop)) error { return d.Ask(ctx, f) },
		owned: o.Owned}
	if sv.owned == nil {
		sv.owned = func() error { return nil }
	}
	if sv.period == 0 {
		sv.period = savePeriod
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		sv.keepState(ctx)
	}()
	return func() {
		cancel()
		<-ended
		sv.ask = func(f func(*Loop)) error {
			f(l)
			return nil
		}
		_ = sv.save()
	}
}
