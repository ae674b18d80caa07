package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"zsched/mailq"
)

// notInQueue is the error for a message that is not in the queue: the spoolid or
// number asked for. Messages leave the queue all the time, so it is not logged.
type notInQueue string

func (id notInQueue) Error() string { return fmt.Sprintf("no message %q is in the queue", string(id)) }

// showMessage executes SHOW MSG: one message, held or not, by its spoolid or
// number.
func showMessage(r *request, ctx context.Context) bool {
	id, rest, ok, err := mailq.CutWord(r.arg)
	if err == nil && (!ok || rest != "") {
		err = errors.New("the spoolid or number of one message is needed")
	}
	if err != nil {
		return r.reject(err)
	}
	return r.list(func(out *answer) error {
		m, found, err := r.server.queue.Message(ctx, id)
		switch {
		case err != nil:
			return err
		case !found:
			return notInQueue(id)
		case r.asJSON:
			return out.object(m)
		}
		return writeMessage(out, m, time.Now())
	})
}

// find executes FIND: every message with the given recipient, sender, Message-Id
// or spoolid.
func find(r *request, ctx context.Context) bool {
	kind, rest := mailq.CutRaw(r.arg)
	switch kind {
	case "recipient", "sender", "message-id", "spoolid":
	default:
		return r.reject(errors.New("FIND needs recipient, sender, message-id or spoolid, and a value"))
	}
	value, rest, ok, err := mailq.CutWord(rest)
	if err == nil && (!ok || rest != "") {
		err = errors.New("one value is needed")
	}
	if err != nil {
		return r.reject(err)
	}
	what := mailq.Query{Kind: kind, Value: value}
	return r.report(
		func(rep *report) error {
			for m, err := range rep.queue.Find(ctx, what) {
				if err == nil {
					err = writeMessage(rep.out, m, rep.now)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(rep *report) error { return objects(rep.out, rep.queue.Find(ctx, what)) })
}

// withoutTries are the states of recipients whose attempts may not be known.
var withoutTries = []string{mailq.StateHeld, "delivered", "failed", "expired", "killed", "requeued", "rerouted", "moved", "done"}

// writeMessage writes a message as text.
func writeMessage(out *answer, m *mailq.Message, now time.Time) error {
	head := fmt.Sprintf("%s: spoolid %s, age %s, %d+%d bytes", mailq.Field(m.Path), mailq.Field(m.SpoolID),
		formatSeconds(now.Unix()-m.ArrivedAt.Unix()), m.Control, m.Size)
	if m.Held {
		head += ", held"
	}
	text := []string{head}
	if m.NoFile {
		text = append(text, "\t  lost\tthe message file is missing; its recipients fail at their next attempt")
	}
	if m.LogID != "" {
		text = append(text, "\t  id\t"+m.LogID)
	}
	text = append(text, "\t  from\t"+cmp.Or(m.Sender, "<>"))
	if m.ErrorsTo != "" && m.ErrorsTo != m.Sender {
		text = append(text, "\t  errors to\t"+m.ErrorsTo)
	}
	for i := range m.Recipients {
		r := &m.Recipients[i]
		to := r.User
		if len(r.Originals) > 0 {
			to += " (originally " + strings.Join(r.Originals, ", ") + ")"
		}
		line := fmt.Sprintf("\t  to\t%s via %s/%s: %s", to, r.Channel, r.Host, r.State)
		// The attempts of a recipient that is done, or whose message is held,
		// may no longer be known.
		if r.Attempts > 0 || !slices.Contains(withoutTries, r.State) {
			line += ", " + mailq.Plural(r.Attempts, "try", "tries")
		}
		if r.Order != "" {
			line += ", " + string(r.Order)
			if r.OrderTo != "" {
				line += " to " + r.OrderTo
			}
			line += " when the agent reports"
		}
		switch r.KeptBack {
		case mailq.StateHeld:
			line += ", its thread is held"
		case mailq.SuspendedByOrder:
			line += ", its thread is suspended by order"
		}
		if wait := r.WakeAt.Unix() - now.Unix(); !r.WakeAt.IsZero() && wait > 0 {
			line += ", retry in " + formatSeconds(wait)
		}
		text = appendDiagnostic(append(text, line), "\t  diag\t", r.Reason)
	}
	return out.texts(text)
}

// appendDiagnostic appends the lines of a diagnostic that are not empty.
func appendDiagnostic(text []string, prefix, diagnostic string) []string {
	for line := range strings.SplitSeq(diagnostic, "\r") {
		if line != "" {
			text = append(text, prefix+line)
		}
	}
	return text
}
