package server

// ETRN.

import (
	"context"
	"strings"
	"time"

	"zsched/mailq"
)

// etrn executes ETRN: it starts delivery of the mail for a host, as SMTP's ETRN
// does. The case of the host does not matter. Administrators send the command,
// and so do mail servers on behalf of their clients; text says for whom. All
// users who may not give orders can together start the mail of a host only once a
// minute, because an ETRN overrides the schedule of retries. Each of them
// may send maxTriggers in that time, so that nobody uses up the places of others.
func etrn(r *request, ctx context.Context) bool {
	host, text := mailq.CutRaw(r.arg)
	host = strings.ToLower(host)
	started := false
	now := time.Now()
	if host != "" && (r.rights.has(rightKILL) ||
		r.server.askers.Allow(r.peer.group(), now) && r.server.triggers.Allow(host, now)) {
		var err error
		started, err = r.server.queue.Trigger(ctx, host, text)
		r.note(Note{Kind: NoteTrigger, Host: host, Text: text, Started: started, Err: err})
		if err != nil {
			return r.reject(err)
		}
	}
	if started {
		r.reply("+OK; an ETRN started something.")
	} else {
		r.reply("+OK; an ETRN didn't start anything.")
	}
	return true
}
