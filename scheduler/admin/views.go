package admin

// The core's views as values of the query protocol.

import (
	"context"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/spool"
)

func ringOf(v *scheduler.RingView) *mailq.Ring {
	return &mailq.Ring{
		ID: v.ID, Channel: v.Channel, Host: v.Host, WithHost: v.WithHost,
		Threads: v.Threads, Jobs: v.Vertices, Agents: v.Agents, Idle: v.Idle,
		MaxRing: v.MaxRing, Overfeed: v.Overfeed, MaxThr: v.MaxThr,
	}
}

func threadOf(v *scheduler.ThreadView) *mailq.Thread {
	t := &mailq.Thread{
		Name: mailq.Name{Channel: v.Channel, Host: v.Host}, WithHost: v.WithHost,
		Jobs: v.Vertices, Recipients: v.Recipients, Attempts: v.Attempts, States: states(v.States), NotLoaded: v.NotLoaded,
		WakeAt: v.WakeAt, Pending: pending[v.Wait], OldestAt: v.OldestAt,
		Held: v.Held, Reason: v.Last, Window: v.Window, Rate: v.Rate,
		WindowLimit: v.WindowLimit, Sessions: v.Sessions, SuspendedUntil: v.SuspendedUntil, SuspendedBy: mailq.Suspender(v.SuspendedBy),
		StartError: v.StartError, Site: v.Site,
	}
	switch {
	case v.SuspendedBy != "":
		t.Destination = mailq.Suspended
	case v.Feedback.Dead:
		t.Destination = mailq.Probing
	}
	if f := v.Feedback; v.InitialWindow > 0 {
		t.Feedback = &mailq.Feedback{Positive: f.Success, Negative: f.Failure, FailedCohorts: f.FailedCohorts, CohortLimit: f.CohortLimit}
	}
	if len(v.Agents) > 0 {
		t.Agents = make([]mailq.Agent, len(v.Agents))
	}
	for _, e := range v.Effects {
		t.Effects = append(t.Effects, mailq.Effect(e))
	}
	for i, a := range v.Agents {
		t.Agents[i] = mailq.Agent{PID: a.PID, HungryAt: a.HungryAt, FedAt: a.FedAt, Open: a.Open, State: string(a.State)}
	}
	return t
}

// jobWithFile returns a vertex as a job. If it is not loaded, the control file says who the
// sender and the recipients are. A file that cannot be read leaves them empty, and the owner
// unknown.
func (q *Queue) jobWithFile(ctx context.Context, v *scheduler.VertexView) *mailq.Job {
	job := jobOf(v)
	if v.NotLoaded == 0 {
		return job
	}
	job.Owner = nil
	m, found, err := q.files.Show(ctx, v.Path)
	if err == nil && found && m.Place == spool.Queue && m.File != nil && m.SpoolID() == job.SpoolID {
		job.Sender, job.Owner = senderOf(m.File), &m.Owner
		for _, stored := range storedJobs(m) {
			if stored.Name == job.Name {
				job.Recipients = stored.Recipients
			}
		}
		for i := range job.Recipients {
			job.Recipients[i].Attempts = v.Attempts
		}
	}
	return job
}

// senderOf returns the sender of a control file; "" for the null sender.
func senderOf(f *ctlfile.File) string {
	if n := len(f.Senders); n > 0 && !f.NullSender {
		return f.Senders[n-1].User
	}
	return ""
}

func jobOf(v *scheduler.VertexView) *mailq.Job {
	job := &mailq.Job{
		Name: mailq.Name{Channel: v.Channel, Host: v.Host}, WithHost: v.WithHost,
		Message: uint64(v.Message), Path: v.Path, SpoolID: ctlfile.SpoolID(uint64(v.Message), v.ModifiedAt),
		Sender: v.Sender, Owner: &v.Owner, State: string(v.State), PID: v.PID, Next: v.Next,
		ArrivedAt: v.ModifiedAt, ExpiresAt: v.ExpiresAt, WakeAt: v.WakeAt, FedAt: v.FedAt,
		Pending: pending[v.Wait], Held: v.Held, Recipients: recipientsOf(v),
		StartError: v.StartError, Order: orderName(v.Ordered), OrderTo: targetName(v.OrderedTo),
	}
	if v.State == scheduler.StateHeld {
		job.Pending = mailq.PendingHeld
	}
	if v.Rule != nil {
		job.Rule = v.Rule.Place()
	}
	return job
}

// targetName returns a target as channel/host; "" for none.
func targetName(t scheduler.Target) string {
	if t == (scheduler.Target{}) {
		return ""
	}
	return t.Channel + "/" + t.Host
}

// orderName returns the name of a verb of the core; "" for none.
func orderName(v scheduler.Verb) mailq.Verb {
	if v == 0 { // of nearly all jobs and recipients
		return ""
	}
	for name, verb := range verbs {
		if verb == v {
			return name
		}
	}
	return ""
}

func recipientsOf(v *scheduler.VertexView) []mailq.Recipient {
	out := make([]mailq.Recipient, len(v.Recipients))
	for i, r := range v.Recipients {
		out[i] = mailq.Recipient{Offset: r.Offset, Attempts: r.Attempts, Reason: r.Last, Code: r.Code}
	}
	return out
}

// pending says what mail waits for, in ZMailer's words.
var pending = map[scheduler.Wait]mailq.Pending{
	scheduler.WaitTA: mailq.PendingTA, scheduler.WaitChannel: mailq.PendingChannel, scheduler.WaitRing: mailq.PendingRing,
	scheduler.WaitThread: mailq.PendingThread, scheduler.WaitWindow: mailq.PendingThread, scheduler.WaitProbe: mailq.PendingThread,
	scheduler.WaitMessage: mailq.PendingThread, scheduler.WaitClusterMax: mailq.PendingThread, scheduler.WaitClusterRate: mailq.PendingThread,
	scheduler.WaitFrozen: mailq.PendingFrozen, scheduler.WaitSelect: mailq.PendingFrozen, scheduler.WaitStopping: mailq.PendingFrozen,
	scheduler.WaitForks: mailq.PendingForks, scheduler.WaitCommand: mailq.PendingCommand, scheduler.WaitStart: mailq.PendingStart,
	scheduler.WaitHeld: mailq.PendingHeld, scheduler.WaitTrigger: mailq.PendingTrigger,
	scheduler.WaitRule: mailq.PendingRule, scheduler.WaitRate: mailq.PendingRate, scheduler.WaitSite: mailq.PendingSite,
	scheduler.WaitClusterSite: mailq.PendingSite, scheduler.WaitSiteRate: mailq.PendingSiteRate, scheduler.WaitChannelRate: mailq.PendingChannelRate,
	scheduler.WaitSpool: mailq.PendingSpool,
}
