package server

// SHOW THREAD.

import (
	"context"
	"fmt"
	"time"

	"zsched/mailq"
)

// showThread executes SHOW THREAD: a first line that begins with #, then a line
// for each recipient. The answer for a thread that does not exist is empty.
func showThread(ctx context.Context, r *report, arg string) error {
	name, err := threadName(arg)
	if err != nil {
		return err
	}
	t, err := r.queue.Thread(ctx, name)
	if err != nil || t == nil {
		return err
	}
	if err := r.out.text("#" + zmailerName(t) + "  " + threadDetail(t, r.now, " ")); err != nil {
		return err
	}
	for job, err := range r.queue.Jobs(ctx, name) {
		if err != nil {
			return err
		}
		for i := range job.Recipients {
			if err := r.out.text(recipientLine(job, i, r.now)); err != nil {
				return err
			}
		}
	}
	return nil
}

// recipientLine is a line of SHOW THREAD: control file, index in its job,
// sender, offset, expiry, wake-up, last feed, attempts, what it waits for, and
// the last diagnostic.
func recipientLine(job *mailq.JobLine, i int, now time.Time) string {
	unix := func(at time.Time) int64 {
		if at.IsZero() {
			return 0
		}
		return at.Unix()
	}
	waits := "thread"
	switch wait := job.WakeAt.Unix() - now.Unix(); {
	case !job.WakeAt.IsZero() && wait > 0:
		waits = "retry in " + formatSeconds(wait)
	case pending[job.Wait] == pendingTA, pending[job.Wait] == pendingThread:
		waits = ""
	case pending[job.Wait] == pendingChannel:
		waits = "channel"
	}
	r := &job.Recipients[i]
	return fmt.Sprintf("%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s", mailq.Field(job.Path), i, mailq.Field(job.Sender), r.Offset,
		unix(job.ExpiresAt), unix(job.WakeAt), unix(job.FedAt), r.Attempts, waits, mailq.Field(r.Reason))
}
