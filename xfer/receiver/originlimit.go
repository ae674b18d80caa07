package receiver

// The limit on the memory for origins. A node that never confirms would otherwise fill it.

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"zsched/ctlfile"
)

const (
	// originCost is what an origin costs besides the bytes of its ID: the entry of the map.
	originCost = 128
	// nodesAtLimit is how many times the limit of one node all nodes together may have.
	nodesAtLimit = 4
	// purgePause is the least time between two looks for origins that are too old.
	purgePause = time.Minute
)

// errOrigins says that too many recipients wait for their confirmation.
var errOrigins = errors.New("too many recipients are not confirmed")

// put adds an origin.
func (o *origins) put(id string, one origin) {
	if _, known := o.taken[id]; !known {
		o.count(o.used, nodeOf(id), costOf(id))
	}
	o.taken[id] = one
}

// drop removes an origin.
func (o *origins) drop(id string) {
	if _, known := o.taken[id]; known {
		o.count(o.used, nodeOf(id), -costOf(id))
		delete(o.taken, id)
	}
}

// purge removes the origins that are too old.
func (o *origins) purge() {
	o.purgedAt = time.Now()
	oldest := o.purgedAt.Add(-o.keep).Unix()
	for id, one := range o.taken {
		if one.seconds < oldest {
			o.drop(id)
		}
	}
}

// begin begins a batch: what the batch before has reserved is free again.
func (o *origins) begin() {
	for _, bytes := range o.reserved {
		o.all -= bytes
	}
	o.reserved = make(map[string]int64)
}

// reserve reserves the memory for the origins of a message of the batch, or returns
// errOrigins.
func (o *origins) reserve(list []ctlfile.Origin) error {
	if o.max == 0 || len(list) == 0 {
		return nil
	}
	costs := make(map[string]int64)
	for i := range list {
		id := list[i].ID()
		costs[nodeOf(id)] += costOf(id)
	}
	err := o.excess(costs)
	if err != nil && time.Since(o.purgedAt) > purgePause {
		o.purge()
		err = o.excess(costs)
	}
	if err != nil {
		return err
	}
	for node, cost := range costs {
		o.count(o.reserved, node, cost)
	}
	return nil
}

// excess returns errOrigins if there is no memory for further origins of nodes.
func (o *origins) excess(costs map[string]int64) error {
	all := o.all
	for node, cost := range costs {
		all += cost
		if bytes := o.used[node] + o.reserved[node] + cost; bytes > o.max {
			return fmt.Errorf("%w: those of node %.200s would need %d bytes, more than %d", errOrigins, node, bytes, o.max)
		}
	}
	if all > nodesAtLimit*o.max {
		return fmt.Errorf("%w: those of all nodes would need %d bytes, more than %d", errOrigins, all, nodesAtLimit*o.max)
	}
	return nil
}

// count adds bytes, which may be negative, to those of a node and to those of all.
func (o *origins) count(nodes map[string]int64, node string, bytes int64) {
	o.all += bytes
	if nodes[node] += bytes; nodes[node] == 0 {
		delete(nodes, node)
	}
}

func costOf(id string) int64 { return int64(len(id)) + originCost }

// nodeOf returns the node of an origin. The table of nodes has them in lower case.
func nodeOf(id string) string {
	for range 2 { // the offset and the spoolid
		id = id[:max(0, strings.LastIndexByte(id, '/'))]
	}
	return strings.ToLower(id)
}
