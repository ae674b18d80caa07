package daemon

import (
	"errors"

	"zsched/scheduler"
)

// reload is the reading of a new configuration, which happens outside of the
// loop.
type reload struct {
	under bool
	again bool // asked for while one was under way
	done  chan reloaded
}

type reloaded struct {
	config *scheduler.Config
	err    error
}

func (d *Daemon) beginReload() {
	switch {
	case d.Reload == nil:
	case d.reload.under:
		d.reload.again = true
	default:
		d.reload.under = true
		go func() {
			config, err := d.Reload()
			d.reload.done <- reloaded{config, err} // has room for the only one
		}()
	}
}

// reloaded puts a new configuration in force; a bad one leaves the old.
func (d *Daemon) reloaded(r reloaded) {
	d.reload.under = false
	if r.err != nil {
		for _, err := range oneByOne(r.err) {
			d.Log.Error().Err(err).Msg("configuration not read again, the old one stays in force")
		}
	} else {
		d.step(scheduler.Reloaded{Config: d.frozenUntilLoaded(r.config)})
		if d.server != nil {
			d.server.Configure(d.answering())
		}
		d.Log.Info().Int("clauses", len(r.config.Clauses)).Msg("configuration read again")
	}
	if d.reload.again {
		d.reload.again = false
		d.beginReload()
	}
}

// oneByOne returns the errors of which an error is the list.
func oneByOne(err error) []error {
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		return list.Unwrap()
	}
	return []error{err}
}
