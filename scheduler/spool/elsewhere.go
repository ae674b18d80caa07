package spool

// Recipients that were on their way to another node, and are sent elsewhere: that node is
// asked first which of them it has, because its answer to a push may have been lost.

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"zsched/ctlfile"
)

// elsewhere are the questions to other nodes about the messages of a batch, and the
// answers.
type elsewhere struct {
	ask   func(node string, origins []ctlfile.Origin) (taken map[string]bool, err error)
	open  map[string][]ctlfile.Origin // questions, by node
	asked map[string]bool             // by node and ID of the origin
	taken map[string]bool             // the same
	errs  map[string]error            // by node: it could not be asked
}

func (s *Spool) newElsewhere() *elsewhere {
	return &elsewhere{
		ask: s.options.Taken, open: make(map[string][]ctlfile.Origin),
		asked: make(map[string]bool), taken: make(map[string]bool), errs: make(map[string]error),
	}
}

// errUnasked says that a node is to be asked before a message can be staged.
var errUnasked = errors.New("the other node has not been asked yet")

// keep removes from the chosen recipients of a message those that another node has, and
// the alternatives of these. They stay in channel xfer, whose agent gets the answer to the
// repeated push; kept says so to the administrator. keep returns errUnasked if a node is to
// be asked first.
func (e *elsewhere) keep(f *ctlfile.File, chosen []int) (left []int, kept error, err error) {
	if e == nil || e.ask == nil {
		return chosen, nil, nil
	}
	// set is an exclusive set before the move.
	type set struct {
		message string
		class   int
	}
	stays, settled := make(map[int]bool), make(map[set]bool)
	before := make(map[int]set) // by recipient
	node := ""
	for _, i := range chosen {
		to := &f.Recipients[i]
		if !wasMoved(to) {
			continue
		}
		name := strings.ToLower(to.RouteHost())
		if err := e.errs[name]; err != nil {
			return nil, nil, err
		}
		from, _ := ctlfile.ParseOrigin(to.Origin) // wasMoved has read it
		key := name + " " + from.ID()
		before[i] = set{from.Message(), from.Class}
		switch {
		case !e.asked[key]:
			e.open[name], err = append(e.open[name], from), errUnasked
		case e.taken[key]:
			stays[i], node = true, name
			settled[before[i]] = from.Class > 0
		}
	}
	if err != nil || len(stays) == 0 {
		return chosen, nil, err
	}
	left = slices.DeleteFunc(slices.Clone(chosen), func(i int) bool { return stays[i] || settled[before[i]] })
	return left, fmt.Errorf("node %s has taken recipients of this message already, which are not sent elsewhere", node), nil
}

// askAll asks the open questions.
func (e *elsewhere) askAll() {
	for node, origins := range e.open {
		taken, err := e.ask(node, origins)
		if err != nil {
			// Not %w: a full disk, say, would be that of the other node.
			e.errs[node] = fmt.Errorf("asking node %s which of the recipients it has, before they are sent elsewhere: %v", node, err)
			continue
		}
		for _, from := range origins {
			key := node + " " + from.ID()
			e.asked[key], e.taken[key] = true, taken[from.ID()]
		}
	}
	clear(e.open)
}
