package daemon

import (
	"os"
	"syscall"
	"time"

	"zsched/scheduler"
)

// How long a stop may take. After 5 seconds or 5 minutes the core tells agents
// to end that have not left by themselves. Those that still finish their
// message then do so without us: its recipients are locked in their name.
const (
	fastStop = 6 * time.Second
	slowStop = 5*time.Minute + 5*time.Second
)

// stop is a stop under way.
type stop struct {
	under bool
	slow  bool
	until time.Time // zero: none under way
}

// signal does what scheduler(8), "SIGNALS", says.
func (d *Daemon) signal(sig os.Signal) {
	d.Log.Info().Stringer("signal", sig).Msg("signal")
	switch sig {
	case syscall.SIGTERM, syscall.SIGINT:
		d.beginStop(false)
	case syscall.SIGQUIT:
		d.beginStop(!d.stop.under)
	case syscall.SIGHUP:
		if d.Reopen != nil {
			d.Reopen()
		}
	case syscall.SIGALRM:
		d.Spool.Sweep()
		d.step(scheduler.Tick{})
	case syscall.SIGUSR1:
		d.beginReload()
	case syscall.SIGUSR2:
		d.dump()
		d.writeRendezvous()
	}
}

// beginStop begins a stop, or hastens the one under way.
func (d *Daemon) beginStop(slow bool) {
	if d.stop.under && (slow || !d.stop.slow) {
		return
	}
	last := fastStop
	if slow {
		last = slowStop
	}
	d.stop = stop{under: true, slow: slow, until: d.now.Add(last)}
	d.step(scheduler.Stopping{Slow: slow})
}

// boundStop hastens a slow stop that has lasted too long, and ends a fast one.
func (d *Daemon) boundStop() {
	if !d.stop.under || d.now.Before(d.stop.until) {
		return
	}
	if d.stop.slow {
		d.beginStop(false)
		return
	}
	d.Log.Warn().Int("agents", len(d.agents)).Int("files", d.filing).Msg("leaving although not everything has ended")
	d.over = true
}
