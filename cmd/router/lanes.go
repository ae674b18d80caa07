package main

// Two lanes: a message that takes long to route does not delay the others. How long it takes
// depends on its recipients, with the members of aliases, and on the size of its envelope and
// header; the size of the body does not matter, because the file is only renamed. The router
// finds that out when it reads a submission, and stops where small is exceeded:
//
//	waiting ──► small: routed with the others of its batch
//	        └─► not small: it goes to the lane large
//
// Small mail goes first. A batch of large mail comes when no small mail waits, or when
// smallTurns batches of it have gone before. So small mail waits for one batch of large mail,
// however many submissions that lane has, and large mail goes on whatever comes in.

import "zsched/router"

var small = router.Effort{Recipients: 100, Envelope: 64 << 10, Header: 16 << 10}

// smallTurns is how many batches of small mail are routed while large mail waits.
const smallTurns = 10

// lane returns the names from which the next batch is taken, and the effort for each.
func (r *service) lane() (*[]string, router.Effort) {
	switch {
	case len(r.large) == 0:
		r.turns = 0
		return &r.waiting, small
	case len(r.waiting) > 0 && r.turns < smallTurns:
		r.turns++
		return &r.waiting, small
	}
	r.turns = 0
	return &r.large, router.Effort{}
}

// idle reports whether no submission waits.
func (r *service) idle() bool { return len(r.waiting)+len(r.large) == 0 }
