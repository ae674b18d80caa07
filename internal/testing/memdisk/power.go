package memdisk

// Power cuts: when the power fails, what has become durable before, and what is left
// when the power comes back.

import (
	"fmt"
	"slices"
	"strings"
)

// CutAt sets the call at which the power fails: the n-th from now that changes
// something and that step accepts by its description, such as "unlink transport/117".
// That call and all later ones fail. Calls that change nothing do not count, because a
// cut at such a call has the same effect as one at the next call that changes
// something.
func (d *Disk) CutAt(n int, step func(call string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt, d.cutStep = n, step
}

// Cut cuts the power now.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.powerOff("between two calls")
}

func (d *Disk) powerOff(at string) {
	if !d.off {
		d.off, d.cut = true, at
	}
}

// IsOff reports whether the power is off, and the call at which it failed.
func (d *Disk) IsOff() (off bool, at string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.off, d.cut
}

// PowerOn makes the disk work again after a power cut. Each change that was not
// durable survives with the probability kept. It closes all files. No call may be
// under way.
func (d *Disk) PowerOn(kept float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off, d.cut, d.calls, d.cutAt = false, "", 0, 0
	d.open = make(map[int]*handle)
	lost := map[*node]bool{}
	for _, c := range d.journal {
		if lost[c.node] || d.rand.Float64() >= kept {
			lost[c.node] = true
			d.trace = append(d.trace, "lost "+c.String())
			continue
		}
		c.apply()
	}
	d.journal, d.used, d.free = nil, 0, nil
	seen := map[*node]bool{}
	d.restore(d.root, kept, seen)
	taken := map[uint64]bool{}
	for n := range seen {
		taken[n.ino] = true
	}
	for ino := uint64(100); ino <= d.last; ino++ {
		if !taken[ino] {
			d.free = append(d.free, ino)
		}
	}
}

func (c *change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "names of %d:", c.node.ino)
	for _, s := range c.sets {
		sign := '-'
		if s.node != nil {
			sign = '+'
		}
		fmt.Fprintf(&b, " %c%s in %d", sign, s.name, s.dir.ino)
	}
	return b.String()
}

func (c *change) apply() {
	for _, s := range c.sets {
		switch {
		case s.dir.setAt[s.name] > c.number:
			continue
		case s.node == nil:
			delete(s.dir.durableNames, s.name)
		default:
			s.dir.durableNames[s.name] = s.node
		}
		s.dir.setAt[s.name] = c.number
	}
}

// restore gives a node, and those below it, the state that the power cut has
// left. A directory is walked in the order of its names, so that the choices
// depend on the seed alone.
func (d *Disk) restore(n *node, kept float64, seen map[*node]bool) {
	n.links++
	if seen[n] {
		return
	}
	seen[n], n.links = true, 1
	data := d.survivingData(n, kept)
	if d.rand.Float64() < kept {
		n.durable.mode, n.durable.uid, n.durable.gid = n.state.mode, n.state.uid, n.state.gid
		n.durable.mtime, n.durable.ctime = n.state.mtime, n.state.ctime
	}
	n.durable.data = data
	n.state, n.writes = n.durable, nil
	d.used += int64(len(data))
	if !n.isDir() {
		return
	}
	n.names = make(map[string]*node, len(n.durableNames))
	for _, name := range sortedNames(n.durableNames) {
		n.names[name] = n.durableNames[name]
		d.restore(n.names[name], kept, seen)
	}
}

// survivingData returns what a power cut leaves of a file.
func (d *Disk) survivingData(n *node, kept float64) []byte {
	data := append([]byte(nil), n.durable.data...)
	for _, w := range n.writes {
		if w.data == nil {
			if d.rand.Float64() < kept {
				data = resized(data, w.offset)
			}
			continue
		}
		for start := int64(0); start < int64(len(w.data)); {
			end := min(int64(len(w.data)), start+sector-(w.offset+start)%sector)
			if d.rand.Float64() < kept {
				data = overwritten(data, w.data[start:end], w.offset+start)
			} else if end == int64(len(w.data)) && d.rand.Float64() < kept {
				// Only the new size survives.
				data = resized(data, max(int64(len(data)), w.offset+end))
			}
			start = end
		}
	}
	return data
}

// resized returns data cut off or filled with zeros to a size, in a new array if it
// grows.
func resized(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return data[:size:size]
	}
	return append(data[:len(data):len(data)], make([]byte, size-int64(len(data)))...)
}

// overwritten returns data with bytes at an offset. It changes data in place where
// it does not grow.
func overwritten(data, b []byte, offset int64) []byte {
	data = resized(data, max(int64(len(data)), offset+int64(len(b))))
	copy(data[offset:], b)
	return data
}

// syncNames makes the names in a directory durable. Earlier changes of other
// names of the same files become durable with them.
func (d *Disk) syncNames(dir *node) {
	through := map[*node]int{} // the last change of a node that has to be durable
	for i, c := range d.journal {
		for _, s := range c.sets {
			if s.dir == dir {
				through[c.node] = i
			}
		}
	}
	all := d.journal
	d.journal = nil
	for i, c := range all {
		if last, ok := through[c.node]; ok && i <= last {
			c.apply()
		} else {
			d.journal = append(d.journal, c)
		}
	}
	for _, c := range all {
		if _, ok := through[c.node]; ok {
			d.reuse(c.node)
		}
	}
}

// reuse makes the inode number of a file free, if the file is gone for good: it
// has no name, no power cut can give it one back, and it is not open.
func (d *Disk) reuse(n *node) {
	if n.links > 0 || n.gone {
		return
	}
	for _, c := range d.journal {
		if c.node == n {
			return
		}
	}
	for _, h := range d.open {
		if h.node == n {
			return
		}
	}
	n.gone = true
	d.free = append(d.free, n.ino)
}

// syncNode makes the content of a file durable, except for what an fsync that
// failed has abandoned.
func (d *Disk) syncNode(n *node) {
	durable := n.state
	var abandoned, done []write
	for _, w := range n.writes {
		if w.abandoned {
			abandoned = append(abandoned, w)
		} else {
			abandoned, done = notReplaced(abandoned, w), append(done, w)
		}
	}
	if len(abandoned) > 0 {
		durable.data = slices.Clone(n.durable.data)
		for _, w := range done {
			if w.data == nil {
				durable.data = resized(durable.data, w.offset)
			} else {
				durable.data = overwritten(durable.data, w.data, w.offset)
			}
		}
	}
	n.durable, n.writes = durable, abandoned
}

// notReplaced returns the parts of abandoned writes that a later write, which is durable,
// has neither overwritten nor cut off. They may still survive a power cut.
func notReplaced(abandoned []write, later write) (left []write) {
	for _, w := range abandoned {
		end := w.offset + int64(len(w.data))
		if w.data == nil {
			left = append(left, w)
			continue
		}
		if later.offset > w.offset {
			left = append(left, write{offset: w.offset, data: w.data[:min(end, later.offset)-w.offset], abandoned: true})
		}
		if after := later.offset + int64(len(later.data)); later.data != nil && after < end {
			after = max(after, w.offset)
			left = append(left, write{offset: after, data: w.data[after-w.offset:], abandoned: true})
		}
	}
	return left
}
