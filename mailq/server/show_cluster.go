package server

import (
	"context"
	"errors"

	"zsched/mailq"
)

// showCluster executes SHOW CLUSTER: it lists the store of the cluster, its nodes and
// the limits that they share.
//
//	store redis://store.example.net:6379/0: reached, epoch began 2h ago, …
//	node mx1 (this one): reported 1s ago, 3 limits, 7 allowed, 5 busy, 9 wanted
//	limit clustermax smtp/example.net: 20; mx1 has 7 (5 busy, 9 wanted), mx2 has 13 (13 busy, 20 wanted)
func showCluster(r *request, ctx context.Context) bool {
	if !r.hasNoArguments() {
		return true
	}
	items, found, err := r.server.queue.Cluster(ctx)
	if err == nil && !found {
		return r.reject(errors.New("this scheduler is in no cluster: PARAMcluster is not set"))
	}
	return r.report(
		func(rep *report) error {
			for _, item := range items {
				if err := rep.out.text(mailq.OneReply(item.Text(rep.now))); err != nil {
					return err
				}
			}
			return err
		},
		func(rep *report) error {
			for _, item := range items {
				if err := rep.out.object(item); err != nil {
					return err
				}
			}
			return err
		})
}
