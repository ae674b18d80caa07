package daemon

import (
	"context"
	"strings"

	"zsched/scheduler"
)

// Trigger starts the mail of a host (ETRN).
func (q queries) Trigger(ctx context.Context, host, _ string) (started bool, err error) {
	host = strings.ToLower(host)
	err = q.d.ask(ctx, func() {
		if started = q.d.core.HasMail(host); started {
			q.d.step(scheduler.Triggered{Host: host})
		}
	})
	return started, err
}
