package main

// The metrics that router(8) lists, "METRICS".

import (
	"fmt"
	"time"

	"zsched/internal/metrics"
	"zsched/router"
)

// sweepTimeout is how long the router may take to read router/, which it does every ten seconds.
const sweepTimeout = 5 * time.Minute

func numbers(r *router.Service) metrics.Numbers {
	return func(to metrics.Sender) {
		c := r.Counts()
		age := 0.0
		if !c.OldestAt.IsZero() {
			age = max(0, time.Since(c.OldestAt).Seconds())
		}
		to.Version("router")
		to.Send("router_waiting", "Submissions in router/ when it was last read, every ten seconds.", float64(c.Waiting))
		to.Send("router_oldest_seconds", "Age of the oldest of them; 0 if there was none.", age)
		to.Send("router_routed_total", "Submissions that were routed.", float64(c.Routed))
		to.Send("router_recipients_total", "Their recipients.", float64(c.Recipients))
		to.Send("router_refused_total", "Of them, those that nobody gets but their sender, as a notice.", float64(c.Refused))
		to.Send("router_failures_total", "Attempts to route a submission that failed.", float64(c.Failures))
		to.YesNo("router_last_reload_successful", "Whether the last reload, or the start, put its tables into force.", c.ReloadError == nil)
		to.Time("router_last_reload_timestamp_seconds", "When the tables were last read, in seconds since 1970.", c.ReloadedAt)
	}
}

// unhealthy returns why mail is not routed; "" if it is.
func unhealthy(c router.Counts, now time.Time) string {
	if silent := now.Sub(c.SweptAt); silent > sweepTimeout {
		return fmt.Sprintf("router/ has not been read for %v", silent.Round(time.Second))
	}
	return ""
}
