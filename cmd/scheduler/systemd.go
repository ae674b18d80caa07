package main

// The service manager: the scheduler notifies it of start and reload, and feeds its
// watchdog (sd_notify(3)). Without a service manager these functions do nothing.

import (
	"context"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"zsched/scheduler/daemon"
)

// notifyReady tells the service manager that the scheduler has started or
// finished a reload.
func notifyReady() { _, _ = systemd.SdNotify(false, systemd.SdNotifyReady) }

// notifyReloading tells the service manager that a reload has begun.
// Type=notify-reload requires the time as well.
func notifyReloading() {
	if usec := systemd.SdNotifyMonotonicUsec(); usec != "" {
		_, _ = systemd.SdNotify(false, systemd.SdNotifyReloading+"\n"+usec)
	}
}

// feedWatchdog tells the watchdog twice per interval that the loop is running.
// It asks the loop each time, so the watchdog notices a loop that hangs.
func feedWatchdog(ctx context.Context, loop *daemon.Daemon) {
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil || interval <= 0 {
		return
	}
	ticker := time.NewTicker(interval / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if loop.Ask(ctx, func(*daemon.Loop) {}) == nil {
			_, _ = systemd.SdNotify(false, systemd.SdNotifyWatchdog)
		}
	}
}
