package daemon

// Warm restart: the writing of POSTOFFICE/.scheduler.state.

import (
	"context"
	"slices"
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

// saver saves what the core knows: the changes every minute, and everything at
// the end and when the file has become too long. It has a goroutine of its own,
// which asks the loop for a slice at a time and writes it.
type saver struct {
	path   string
	ask    func(func(*Loop)) error
	owned  func() error  // returns why nothing may be written any more, or nil
	file   *state.Writer // nil: to be opened
	all    bool          // everything must be saved
	saved  scheduler.Saved
	nodes  []string  // of the cluster, as they were saved last; nil: not in file yet
	now    time.Time // when this save began
	synced time.Time // when the last save that was made durable began
	failed bool      // the last save failed, and that was logged
	period time.Duration
	log    *zerolog.Logger
}

// keepState saves every period until ctx is done.
func (sv *saver) keepState(ctx context.Context) {
	timer := time.NewTicker(sv.period)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case sv.now = <-timer.C:
		}
		if sv.save(false) != nil {
			return
		}
	}
}

// situation is what a save depends on.
type situation struct {
	read       bool // the file of the earlier process has been read
	foreign    bool // that file was not written by this program
	loaded     bool // all mail that was there at the start is loaded
	lost       bool // there were too many changes for SaveChanges
	recipients int
	nodes      []string // of the cluster; nil: there is no cluster
}

// save saves the changes, or everything if that is necessary or if this is the
// last save. The error says that the loop has ended, or that the postoffice was taken
// over.
func (sv *saver) save(last bool) error {
	if err := sv.owned(); err != nil {
		return err
	}
	var s situation
	err := sv.ask(func(l *Loop) {
		s = situation{
			read: l.restore.done, foreign: l.restore.foreign, loaded: l.loaded,
			lost: l.core.ChangesLost(), recipients: l.core.Counts().Recipients, nodes: l.nodes(),
		}
	})
	if err != nil {
		return err
	}
	sv.all = sv.all || s.lost || sv.file == nil && s.foreign
	if sv.file != nil && (!sv.file.InPlace() || state.TooLong(sv.file.Size(), s.recipients)) {
		sv.all = true
	}
	var failure error
	switch {
	case !s.read:
		// What is in the file is not known yet.
	case s.loaded && (sv.all || last):
		err, failure = sv.saveAll(s.nodes)
	case s.foreign && sv.file == nil:
		// It is replaced when all mail is loaded.
	default:
		err, failure = sv.saveChanges(s.nodes)
		if failure == nil && state.TooLong(sv.size(), s.recipients) && s.loaded && err == nil {
			err, failure = sv.saveAll(s.nodes)
		}
	}
	sv.note(failure)
	return err
}

func (sv *saver) size() int64 {
	if sv.file == nil {
		return 0
	}
	return sv.file.Size()
}

// note logs an error once, until saving works again. What could not be written is
// part of the next save.
func (sv *saver) note(failure error) {
	if failure != nil {
		sv.all, sv.nodes = true, nil
		if sv.file != nil {
			_ = sv.file.Close()
			sv.file = nil
		}
	}
	switch {
	case sv.failed == (failure != nil):
	case failure != nil:
		sv.log.Error().Err(failure).Msg("the state cannot be saved; this is tried again every minute")
	default:
		sv.log.Info().Msg("the state can be saved again")
	}
	sv.failed = failure != nil
}

// saveChanges appends what has changed. err is that of the loop, failure that of
// the file.
func (sv *saver) saveChanges(nodes []string) (err, failure error) {
	for more := true; more; {
		err := sv.ask(func(l *Loop) { more = l.core.SaveChanges(&sv.saved, saveSlice) })
		if err != nil {
			return err, nil
		}
		nodesChanged := nodes != nil && (sv.nodes == nil || !slices.Equal(nodes, sv.nodes))
		if sv.saved.Len() == 0 && !nodesChanged {
			continue
		}
		if sv.file == nil {
			if sv.file, failure = state.Append(sv.path); failure != nil {
				return nil, failure
			}
		}
		if nodesChanged {
			sv.file.WriteNodes(nodes)
			sv.nodes = nodes
		}
		if failure := sv.file.Write(&sv.saved); failure != nil {
			return nil, failure
		}
	}
	if sv.file == nil {
		return nil, nil
	}
	if failure := sv.file.Flush(); failure != nil {
		return nil, failure
	}
	if !sv.maySync() {
		return nil, nil
	}
	return nil, sv.file.Sync()
}

// maySync reports whether the last sync was at least a minute ago. If so, it records
// this save as the last one that was synced.
func (sv *saver) maySync() bool {
	if sv.now.Sub(sv.synced) < savePeriod {
		return false
	}
	sv.synced = sv.now
	return true
}

// saveAll writes a new file, which replaces the old one. Errors are as in
// saveChanges.
func (sv *saver) saveAll(nodes []string) (err, failure error) {
	file, failure := state.Create(sv.path)
	if failure != nil {
		return nil, failure
	}
	if nodes != nil {
		file.WriteNodes(nodes)
	}
	var pass *scheduler.SavePass
	abandon := func() {
		_ = file.Close()
		_ = sv.ask(func(*Loop) { pass.Close() })
	}
	if err := sv.ask(func(l *Loop) { pass = l.core.SaveAll() }); err != nil {
		_ = file.Close()
		return err, nil
	}
	for more := true; more; {
		if err := sv.ask(func(*Loop) { more = pass.Next(&sv.saved, saveSlice) }); err != nil {
			abandon()
			return err, nil
		}
		if failure := file.Write(&sv.saved); failure != nil {
			abandon()
			return nil, failure
		}
	}
	if failure := file.Commit(sv.maySync()); failure != nil {
		_ = file.Close()
		return nil, failure
	}
	if sv.file != nil {
		_ = sv.file.Close()
	}
	sv.file, sv.all, sv.nodes = file, false, nodes
	return nil, nil
}

// startSaver starts the saver. The function that it returns, which is called after
// the loop has ended, stops it and saves for the last time.
func (d *Daemon) startSaver() (stop func()) {
	o := &d.options
	if o.State == "" {
		return func() {}
	}
	l := &d.loop
	l.core.TrackChanges()
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
		sv.now = time.Now()
		_ = sv.save(true)
		if sv.file != nil {
			_ = sv.file.Close()
		}
	}
}
