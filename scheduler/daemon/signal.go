package daemon

// Signals: stop, reload (SIGUSR1), log files (SIGHUP), sweep (SIGALRM), dump
// (SIGUSR2); and the startup scan.

import (
	"errors"
	"os"
	"syscall"
	"time"

	"zsched/scheduler"
	"zsched/scheduler/rule"
)

// signal does what scheduler(8), "SIGNALS", says.
func (d *Daemon) signal(sig os.Signal) {
	o, l := &d.options, &d.loop
	l.log.Info().Stringer("signal", sig).Msg("signal")
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT:
		d.beginStop(false)
	case syscall.SIGQUIT:
		d.beginStop(!d.stop.begun)
	case syscall.SIGHUP:
		if o.Reopen != nil {
			o.Reopen()
		}
	case syscall.SIGALRM:
		d.lookAgain()
	case syscall.SIGUSR1:
		d.lookAgain()
		d.beginReload()
	case syscall.SIGUSR2:
		l.logState()
		if o.Dump != nil {
			o.Dump()
		}
	}
}

// lookAgain sweeps now, and tries again what failed because of a fault that an
// administrator may have corrected.
func (d *Daemon) lookAgain() {
	d.options.Spool.Sweep()
	d.loop.Step(scheduler.Tick{RetryWrites: true})
}

// stop is the state of a stop. The core decides how long it may take.
type stop struct{ begun, slow bool }

// beginStop begins a stop, or makes a slow one fast.
func (d *Daemon) beginStop(slow bool) {
	if d.stop.begun && (slow || !d.stop.slow) {
		return
	}
	d.stop = stop{begun: true, slow: slow}
	d.loop.Step(scheduler.Stopping{Slow: slow})
}

// reload is the reading of a new configuration, which happens outside the loop.
type reload struct {
	begun bool
	again bool // requested while one is under way
	done  chan reloaded
}

// Reload is how the last reload of the configuration ended. The zero value says
// that there was none since the start.
type Reload struct {
	At    time.Time
	Error string // the first error; "": the new configuration is in force
}

type reloaded struct {
	config *rule.Config
	err    error
}

func (d *Daemon) beginReload() {
	switch {
	case d.options.Reload == nil:
	case d.reload.begun:
		d.reload.again = true
	default:
		d.reload.begun = true
		go func() {
			config, err := d.options.Reload()
			d.reload.done <- reloaded{config, err} // the channel has room for it
		}()
	}
}

// reloaded puts a new configuration into force. If it has errors, the old one
// stays in force.
func (d *Daemon) reloaded(r reloaded) {
	l := &d.loop
	d.reload.begun = false
	l.lastReload = Reload{At: l.now}
	if r.err != nil {
		all := splitErrors(r.err)
		l.lastReload.Error = all[0].Error()
		for _, err := range all {
			l.log.Error().Err(err).Msg("configuration cannot be read again; the old one stays in force")
		}
	} else {
		l.Step(scheduler.Reloaded{Config: d.frozenUntilLoaded(r.config)})
		l.log.Info().Int("clauses", len(r.config.Clauses)).Msg("configuration read again")
	}
	if d.reload.again {
		d.reload.again = false
		d.beginReload()
	}
}

// splitErrors returns the errors that errors.Join has joined into err.
func splitErrors(err error) []error {
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		return list.Unwrap()
	}
	return []error{err}
}

// startup is the state of the time until everything that the first sweep found
// has been read.
type startup struct {
	over  bool
	swept bool // the first sweep has ended
	// config comes into force then (option -S); nil: nothing changes.
	config *rule.Config
}

// frozenUntilLoaded returns the configuration with which a synchronous startup
// begins: the given one, but no agent starts.
func (d *Daemon) frozenUntilLoaded(c *rule.Config) *rule.Config {
	if !d.options.Synchronous || d.startup.over || c.Frozen {
		return c
	}
	d.startup.config = c
	frozen := *c
	frozen.Frozen = true
	return &frozen
}

// finishStartup ends the startup when everything that the first sweep found has
// been read.
func (d *Daemon) finishStartup() {
	s, l := &d.startup, &d.loop
	if s.over || !s.swept || len(l.intake.taking) > 0 {
		return
	}
	s.over, l.loaded = true, true
	if l.saved != nil {
		l.saved = l.saved.Rest()
	}
	what := "Startup scan completed"
	if d.options.Synchronous {
		what = "Synchronous startup completed"
	}
	l.log.Info().Msgf("%s, messages: %d recipients: %d", what, l.intake.messages, l.intake.recipients)
	l.verbose = l.verbose || d.options.VerboseLater
	if s.config != nil {
		l.Step(scheduler.Reloaded{Config: s.config})
		s.config = nil
	}
}
