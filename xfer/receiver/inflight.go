package receiver

// The limit on the memory for control files that a node has pushed and that are not in the
// queue yet. A node need not wait for replies, and could otherwise fill the memory.

import (
	"strings"
	"sync"

	"zsched/xfer"
)

// maxInFlight is how many bytes the control files of one node may have that wait for the
// committer. A single one may have as many as xfer.MaxControl allows.
const maxInFlight = 2 * xfer.MaxControl

// inFlight counts the bytes by node.
type inFlight struct {
	mu    sync.Mutex
	freed sync.Cond
	bytes map[string]int64
}

// begin waits until there is room for a control file of a node, and counts it.
func (f *inFlight) begin(node string, size int64) {
	node = strings.ToLower(node)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes == nil {
		f.bytes, f.freed.L = make(map[string]int64), &f.mu
	}
	for f.bytes[node] > 0 && f.bytes[node]+size > maxInFlight {
		f.freed.Wait()
	}
	f.bytes[node] += size
}

// end counts a control file no more.
func (f *inFlight) end(node string, size int64) {
	node = strings.ToLower(node)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes[node] -= size; f.bytes[node] == 0 {
		delete(f.bytes, node)
	}
	f.freed.Broadcast()
}
