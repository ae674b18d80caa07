package server

import (
	"cmp"
	"context"
	"time"

	"zsched/mailq"
)

// showWhere executes SHOW WHERE: it lists the jobs that an order with this
// selection would affect, one a line.
//
//	smtp/example.com: M/K/860194, S860194HfBVWBh, 2 recipients from a@b.example, waiting 5m: try later
func showWhere(r *request, ctx context.Context) bool {
	where, err := mailq.ParseSelection(r.arg)
	if err != nil {
		return r.reject(err)
	}
	return r.report(
		func(rep *report) error {
			for job, err := range rep.queue.Select(ctx, where) {
				if err == nil {
					err = rep.out.text(mailq.OneReply(jobText(job, rep.now)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(rep *report) error { return objects(rep.out, rep.queue.Select(ctx, where)) })
}

// jobText is a line of SHOW WHERE.
func jobText(job *mailq.Job, now time.Time) string {
	text := job.Channel + "/" + job.Host + ": " + job.Path + ", " + job.SpoolID + ", " +
		mailq.Plural(len(job.Recipients), "recipient", "recipients") + " from " + cmp.Or(job.Sender, "<>") + ", " + job.State
	if job.State == mailq.StateUnloaded {
		text += ", age " + mailq.FormatAge(now, job.ArrivedAt)
	}
	if job.WakeAt.After(now) {
		text += " " + formatSeconds(job.WakeAt.Unix()-now.Unix())
	}
	for i := range job.Recipients {
		if reason := mailq.LastReply(job.ReasonOf(&job.Recipients[i])); reason != "" {
			return text + ": " + reason
		}
	}
	return text
}
