package metrics

// Health: /healthz answers 200 while mail can be delivered, and 503 with a
// reason when the loop or the spool hangs, or the agents of a channel do not start.

import (
	"context"
	"fmt"
	"time"

	"zsched/scheduler/daemon"
)

const (
	loopTimeout  = 5 * time.Second  // the loop must answer within this time
	spoolTimeout = 2 * time.Minute  // the spool must answer what it was asked
	sweepTimeout = 15 * time.Minute // a sweep must end
)

// unhealthy returns why mail cannot be delivered; "" if it can.
func (s *Server) unhealthy(ctx context.Context) (why string) {
	ctx, cancel := context.WithTimeout(ctx, loopTimeout)
	defer cancel()
	err := s.Port.Ask(ctx, func(l *daemon.Loop) {
		if why = s.Stats.unhealthy(l.Now(), l.Status()); why != "" {
			return
		}
		if channel, reason := l.Core().FailingStarts(); reason != "" {
			why = fmt.Sprintf("the agents of channel %s do not start: %s", channel, reason)
		}
	})
	if err != nil {
		return fmt.Sprintf("the loop does not answer: %v", err)
	}
	return why
}

// unhealthy returns what is wrong with the spool; "" if nothing is.
func (s *Stats) unhealthy(now time.Time, status daemon.Status) string {
	silent, unswept := now.Sub(s.answeredAt), now.Sub(s.sweptAt)
	switch {
	case status.Stopping:
		return "the scheduler is stopping: it waits for its agents"
	case s.spoolDown != "":
		return "the spool cannot be written: " + s.spoolDown
	case status.Writing+status.Taking > 0 && silent > spoolTimeout:
		return fmt.Sprintf("the spool has %d changes and %d files to read and has answered nothing for %v",
			status.Writing, status.Taking, silent.Round(time.Second))
	case silent > sweepTimeout && unswept > sweepTimeout:
		return fmt.Sprintf("the spool has not been swept for %v", unswept.Round(time.Second))
	}
	return ""
}
