package daemon

import "zsched/scheduler"

// startup is the time until the first sweep has been digested.
type startup struct {
	over       bool
	swept      bool // the first sweep is at its end
	messages   int  // taken so far
	recipients int
	thawed     *scheduler.Config // what comes into force then; nil: nothing new
}

// frozenUntilLoaded returns the configuration that a synchronous startup
// begins with: as given, but no agent starts.
func (d *Daemon) frozenUntilLoaded(c *scheduler.Config) *scheduler.Config {
	if !d.Synchronous || d.startup.over || c.Frozen {
		return c
	}
	d.startup.thawed = c
	frozen := *c
	frozen.Frozen = true
	return &frozen
}

// finishStartup ends the startup when everything the first sweep found has
// been answered.
func (d *Daemon) finishStartup() {
	s := &d.startup
	if s.over || !s.swept || len(d.intake.taking) > 0 {
		return
	}
	s.over = true
	what := "Startup scan completed"
	if d.Synchronous {
		what = "Synchronous startup completed"
	}
	d.Log.Info().Msgf("%s, messages: %d recipients: %d", what, s.messages, s.recipients)
	d.Verbose = d.Verbose || d.VerboseLater
	if s.thawed != nil {
		d.step(scheduler.Reloaded{Config: s.thawed})
		s.thawed = nil
	}
}
