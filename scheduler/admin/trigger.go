package admin

import (
	"context"
	"strings"

	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

// Trigger starts the mail of a host (ETRN).
func (q *Queue) Trigger(ctx context.Context, host, _ string) (started bool, err error) {
	host = strings.ToLower(host)
	err = q.port.Ask(ctx, func(l *daemon.Loop) {
		if started = l.Core().HasMail(host); started {
			l.Step(scheduler.Triggered{Host: host})
		}
	})
	return started, err
}
