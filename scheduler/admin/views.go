package admin

// Job lines as clients see them: what the core does not know comes from control files.

import (
	"context"

	"zsched/ctlfile"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// withFile adds to a job line that is not loaded who the sender and the recipients are. A control
// file that cannot be read leaves them empty, and the owner unknown.
func (q *Queue) withFile(ctx context.Context, line *view.JobLine) *view.JobLine {
	if line.NotLoaded == 0 {
		return line
	}
	m, found, err := q.files.Show(ctx, line.Path)
	if err == nil && found && m.Place == spool.Queue && m.File != nil && m.SpoolID() == line.SpoolID {
		line.Sender, line.Owner = senderOf(m.File), &m.Owner
		for _, stored := range storedJobs(m) {
			if stored.Name == line.Name {
				line.Recipients = stored.Recipients
			}
		}
		for i := range line.Recipients {
			line.Recipients[i].Attempts = line.Attempts
		}
	}
	return line
}

// senderOf returns the sender of a control file; "" for the null sender.
func senderOf(f *ctlfile.File) string {
	if n := len(f.Senders); n > 0 && !f.NullSender {
		return f.Senders[n-1].User
	}
	return ""
}
