package daemon

import (
	"os"
	"syscall"

	"zsched/scheduler"
)

// stop is a stop under way. How long it may take is the core's to say.
type stop struct{ under, slow bool }

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
	d.stop = stop{under: true, slow: slow}
	d.step(scheduler.Stopping{Slow: slow})
}
