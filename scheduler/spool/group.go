package spool

import (
	"hash/maphash"
	"slices"
	"sync"

	"zsched/ctlfile"
)

// groups are the outcomes that wait to be written, by the path of their file.
// A message of a hundred thousand recipients may have as many outcomes, and
// each write begins with a look at all of the file: those that come while one
// is at it go together in the next.
type groups struct {
	mu   sync.Mutex
	open map[string]*group
}

// group is outcomes that are written at once, and the operations they are of.
type group struct {
	ops   []uint64
	marks []ctlfile.Mark
}

// groupLimit bounds the outcomes of a group, and so the lines that are in
// memory for one write.
const groupLimit = 4096

// edit queues work on one file behind all other work on that file.
func (s *Spool) edit(path string, run func()) {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	delete(s.groups.open, path) // what comes after this work is not done before it
	s.pushEdit(path, run)
}

func (s *Spool) pushEdit(path string, run func()) {
	n := maphash.String(s.seed, path) % uint64(len(s.edits))
	s.edits[n].push(run)
}

// editMarks queues outcomes, with those that are last in the queue of the same
// file if there are some.
func (s *Spool) editMarks(op uint64, path string, marks []ctlfile.Mark) {
	s.groups.mu.Lock()
	defer s.groups.mu.Unlock()
	if g := s.groups.open[path]; g != nil && len(g.marks) < groupLimit {
		g.ops, g.marks = append(g.ops, op), append(g.marks, marks...)
		return
	}
	g := &group{[]uint64{op}, slices.Clip(marks)}
	s.groups.open[path] = g
	s.pushEdit(path, func() {
		s.groups.mu.Lock()
		if s.groups.open[path] == g {
			delete(s.groups.open, path)
		}
		s.groups.mu.Unlock()
		s.markAll(path, g)
	})
}
