package server

import (
	"context"

	"zsched/mailq"
)

// showHeld executes SHOW HELD: it lists held threads and messages, each with who
// held it, when, why and until when.
//
//	smtp/example.org: 3 messages, held 2h by root, until released: they asked
//	M/K/860194: S860194HfBVWBh, smtp/example.com, 1 recipient, held 5m by root, ends in 1h55m
func showHeld(r *request, ctx context.Context) bool {
	return !r.hasNoArguments() || r.report(
		func(rep *report) error {
			for item, err := range rep.queue.Held(ctx) {
				if err == nil {
					err = rep.out.text(mailq.OneReply(item.Text(rep.now)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(rep *report) error { return objects(rep.out, rep.queue.Held(ctx)) })
}
