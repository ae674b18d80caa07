package main

// The owner of the postoffice: it is claimed at the start, and taken over from a
// node that is dead.

import (
	"context"

	"github.com/rs/zerolog"

	"zsched/scheduler/config"
	"zsched/scheduler/spool"
)

// claim takes the postoffice. Option -P allows taking it from a node that has not
// released it. After a takeover, claim clears the locks of that node's processes.
func (s *setting) claim(ctx context.Context, file *config.File, log zerolog.Logger) (*spool.Owner, error) {
	claim := spool.Claim{
		Postoffice: s.where.postoffice, Node: file.Params.NodeName(s.where.postoffice),
		// In the foreground a second scheduler is a mistake, and does not wait.
		Replace:  s.daemon,
		TakeOver: s.postoffice != "", Fence: file.Params.Fence,
	}
	owner, err := claim.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if owner.Unwritten != nil {
		log.Error().Err(owner.Unwritten).Msg("pid file not written; mailq -s does not see this scheduler")
	}
	before := &owner.Before
	if before.Epoch > 0 && before.Node != owner.Node {
		log.Warn().Str("node", owner.Node).Uint64("epoch", owner.Epoch).Stringer("before", before).Msg("postoffice taken over")
	}
	return owner, nil
}
