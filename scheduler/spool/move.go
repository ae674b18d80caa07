package spool

import (
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
)

// Move carries a message from one place to another: the message file first,
// then the control file. Nothing is overwritten. Answered by Moved.
func (s *Spool) Move(op uint64, path string, from, to Place) {
	s.edit(path, func() {
		missing, err := s.carry(path, from, to)
		if err != nil {
			err = fmt.Errorf("moving %q from %s to %s: %w", path, from, to, s.classify(path, err))
		}
		s.queue.add([]Result{Moved{op, err, missing}}, 0)
	})
}

// carry moves both files of a message. When the second step fails the first
// is taken back; when that fails too, or the process dies in between, the
// next load finishes the move.
func (s *Spool) carry(path string, from, to Place) (missing bool, err error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	a, b := s.pairs[from], s.pairs[to]
	mode := to.prefixMode()

	moved := true
	switch err := transfer(a.queue, path, b.queue, path, mode); err {
	case nil:
	case unix.ENOENT:
		// Perhaps a process before us got so far.
		moved = false
		if exists(a.transport, path) && !exists(b.queue, path) {
			return false, fmt.Errorf("message file: %w", err)
		}
	default:
		return false, fmt.Errorf("message file: %w", err)
	}
	err = transfer(a.transport, path, b.transport, path, mode)
	if err != nil && moved {
		_ = rename(b.queue, path, a.queue, path)
	}
	if err == unix.ENOENT {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("control file: %w", err)
	}
	return false, nil
}

// prefixMode is the mode of the place's hash directories. Agents and routers
// run under other groups in the queue, nobody but us works elsewhere.
func (p Place) prefixMode() uint32 {
	if p == Queue {
		return 0o2755
	}
	return 0o750
}

// transfer renames a file, making the hash directories that it needs. ENOENT
// means that there is no such file, EEXIST that the new name is taken.
func transfer(fromDir int, from string, toDir int, to string, mode uint32) error {
	err := rename(fromDir, from, toDir, to)
	prefix, _ := split(to)
	if err != unix.ENOENT || prefix == "" || !exists(fromDir, from) {
		return err
	}
	if err := makePrefix(toDir, prefix, mode); err != nil {
		return err
	}
	return rename(fromDir, from, toDir, to)
}

// hashed moves a message from the top of the queue into its hash directory
// and returns its new name. When that cannot be done it stays as it was and
// is handled where it is. found says where the message file is.
func (s *Spool) hashed(n Name) Name {
	dir := ctlfile.HashDir(n.ID, s.options.HashLevels)
	prefix, base := split(n.Path)
	if prefix != "" || dir == "" {
		return n
	}
	q, path := s.pairs[Queue], dir+base
	if transfer(q.queue, base, q.queue, path, Queue.prefixMode()) != nil {
		return n
	}
	if transfer(q.transport, base, q.transport, path, Queue.prefixMode()) != nil {
		_ = rename(q.queue, path, q.queue, base)
		return n
	}
	return Name{path, n.ID}
}

// follow finishes a move that was cut between its steps, for a control file
// in the queue without a message file at its side. It returns the name that
// the control file now has and the place where it is; found is false when its
// message file is nowhere.
//
// A message file with a control file at its own side is that one's, not ours.
func (s *Spool) follow(n Name) (now Name, place Place, found bool, err error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	prefix, base := split(n.Path)
	q := s.pairs[Queue]
	home := ctlfile.HashDir(n.ID, s.options.HashLevels)
	for levels := range maxDepth + 1 {
		dir := ctlfile.HashDir(n.ID, levels)
		other := dir + base
		if dir == prefix || !lone(q, other) {
			continue
		}
		if prefix == "" && dir == home {
			err := transfer(q.transport, n.Path, q.transport, other, Queue.prefixMode())
			return Name{other, n.ID}, Queue, true, err
		}
		err := transfer(q.queue, other, q.queue, n.Path, Queue.prefixMode())
		return n, Queue, true, err
	}
	for _, p := range []Place{Hold, Postman, Corrupt} {
		if lone(s.pairs[p], n.Path) {
			err := transfer(q.transport, n.Path, s.pairs[p].transport, n.Path, p.prefixMode())
			return n, p, true, err
		}
	}
	return n, Queue, false, nil
}

// lone reports whether there is a message file of this path and no control
// file beside it.
func lone(p pair, path string) bool {
	var st unix.Stat_t
	return stat(p.queue, path, &st) == nil && regular(&st) && !exists(p.transport, path)
}
