package server

import (
	"context"
	"strconv"
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
	row, found, err := r.queue.Thread(ctx, name)
	if err != nil || !found || row.Thread == nil {
		return err
	}
	r.out.line = appendThreadHead(r.out.line[:0], row.Thread, r.now)
	if err := r.out.put(r.out.line); err != nil {
		return err
	}
	for job, err := range r.queue.Jobs(ctx, name) {
		if err != nil {
			return err
		}
		for i := range job.Recipients {
			r.out.line = appendRecipient(r.out.line[:0], job, i, r.now)
			if err := r.out.put(r.out.line); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendRecipient appends a line of SHOW THREAD: control file, index in its job,
// sender, offset, expiry, wake-up, last feed, attempts, what it waits for, and
// the last diagnostic.
func appendRecipient(b []byte, job *mailq.Job, i int, now time.Time) []byte {
	rcpt := &job.Recipients[i]
	b = append(b, mailq.Field(job.Path)...)
	b = strconv.AppendInt(append(b, '\t'), int64(i), 10)
	b = append(append(b, '\t'), mailq.Field(job.Sender)...)
	b = strconv.AppendInt(append(b, '\t'), rcpt.Offset, 10)
	for _, at := range [...]time.Time{job.ExpiresAt, job.WakeAt, job.FedAt} {
		b = append(b, '\t')
		if at.IsZero() {
			b = append(b, '0')
			continue
		}
		b = strconv.AppendInt(b, at.Unix(), 10)
	}
	b = strconv.AppendInt(append(b, '\t'), int64(rcpt.Attempts), 10)
	b = append(b, '\t')
	if wait := job.WakeAt.Unix() - now.Unix(); !job.WakeAt.IsZero() && wait > 0 {
		b = append(append(b, "retry in "...), formatSeconds(wait)...)
	} else {
		switch job.Pending {
		case mailq.PendingTA, mailq.PendingThread:
		case mailq.PendingChannel:
			b = append(b, "channel"...)
		default:
			b = append(b, "thread"...)
		}
	}
	return append(append(b, '\t'), mailq.Field(rcpt.Reason)...)
}

// appendThreadHead appends the first line of SHOW THREAD.
func appendThreadHead(b []byte, t *mailq.Thread, now time.Time) []byte {
	b = append(b, '#')
	b = appendName(b, t)
	return appendDetail(append(b, "  "...), t, now, ' ')
}
