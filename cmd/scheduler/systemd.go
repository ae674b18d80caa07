package main

// The service manager: notices of start and reload, and its watchdog
// (sd_notify(3)). Without a service manager nothing happens here.

import (
	"context"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"zsched/scheduler/daemon"
)

// notifyReady says that the scheduler has started or has done a reload.
func notifyReady() { _, _ = systemd.SdNotify(false, systemd.SdNotifyReady) }

// notifyReloading says that a reload has begun. Type=notify-reload wants the
// time with it.
func notifyReloading() {
	if usec := systemd.SdNotifyMonotonicUsec(); usec != "" {
		_, _ = systemd.SdNotify(false, systemd.SdNotifyReloading+"\n"+usec)
	}
}

// feedWatchdog tells the watchdog twice in its interval that the loop turns. It
// asks the loop each time, so a loop that hangs is noticed.
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
