package main

// The owner of the postoffice: it is claimed at the start, and taken over from a
// node that is dead.

import (
	"context"

	"github.com/rs/zerolog"

	"zsched/scheduler/config"
	"zsched/scheduler/owner"
)

// claim takes the postoffice. Option -P allows taking it from a node that has not
// released it.
func (s *setting) claim(ctx context.Context, file *config.File, log zerolog.Logger) (*owner.Owner, error) {
	claim := owner.Claim{
		Postoffice: s.where.postoffice, Node: file.Params.NodeName(s.where.postoffice),
		// In the foreground a second scheduler is a mistake, and does not wait.
		Replace:  s.daemon,
		TakeOver: s.postoffice != "",
	}
	owned, err := claim.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if owned.Unwritten != nil {
		log.Error().Err(owned.Unwritten).Msg("pid file not written; until it is, mailq -s does not see this scheduler")
	}
	before := &owned.Before
	if before.Epoch > 0 && before.Node != owned.Node {
		log.Warn().Str("node", owned.Node).Uint64("epoch", owned.Epoch).Stringer("before", before).Msg("postoffice taken over")
	}
	return owned, nil
}
