package server

import (
	"context"

	"zsched/mailq"
)

// showSuspended executes SHOW SUSPENDED: it lists the threads that SUSPEND
// suspends, each with who gave the order, when, why and until when.
//
//	smtp/example.org: 3 messages, suspended 2h by root, ends in 1h: maintenance
func showSuspended(r *request, ctx context.Context) bool {
	return !r.hasNoArguments() || r.report(
		func(rep *report) error {
			for item, err := range rep.queue.Suspended(ctx) {
				if err == nil {
					err = rep.out.text(mailq.OneReply(item.Text(rep.now)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(rep *report) error { return objects(rep.out, rep.queue.Suspended(ctx)) })
}

// showRules executes SHOW RULES: it lists the reply rules with what they have done
// since they have their present form.
//
//	scheduler.cf:7: 12 hits, last 3m5s ago, in force on 2 threads: reply smtp/* "^4\.7\.0 421 " suspend 15m
func showRules(r *request, ctx context.Context) bool {
	return !r.hasNoArguments() || r.report(
		func(rep *report) error {
			for item, err := range rep.queue.Rules(ctx) {
				if err == nil {
					err = rep.out.text(mailq.OneReply(item.Text(rep.now)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(rep *report) error { return objects(rep.out, rep.queue.Rules(ctx)) })
}
