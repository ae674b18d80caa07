package spool

// Hash directories, and how messages are moved between them and between places.

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// Move moves a message from one place to another: the message file first, then
// the control file. It overwrites nothing. The result is Moved.
func (s *Spool) Move(op uint64, path string, from, to Place) {
	s.edit(path, func() {
		missing, err := s.places.moveMessage(path, from, to)
		if errors.Is(err, unix.EEXIST) && s.places.clearWay(path, to) {
			missing, err = s.places.moveMessage(path, from, to)
		}
		if from == Hold && to == Queue && err == nil && !missing {
			s.places.prepareReleased(path)
		}
		if err != nil {
			err = fmt.Errorf("moving %q from %s to %s: %w", path, from, to, classify(err))
		}
		s.queue.add(Moved{op, err, missing})
	})
}

// clearWay puts a control file aside that a move has found in its way and that has no message
// file: a power cut has undone its removal, and its number was given again. It returns false
// if there is none.
func (at *places) clearWay(path string, to Place) bool {
	p := at.pairs[to]
	if !postoffice.Exists(p.transport, path) || postoffice.Exists(p.queue, path) {
		return false
	}
	if err := at.quarantine(to.dir()+path, "its message file is gone, and another message has its number"); err != nil {
		at.warn(fmt.Sprintf("%stransport/%s is in the way of another message: %v", to.dir(), path, err))
		return false
	}
	at.warn(fmt.Sprintf("%stransport/%s had no message file and was in the way of another message; it is in corrupt/transport now", to.dir(), path))
	return true
}

// moveMessage moves both files of a message. If the second move fails, the first
// is undone. If that fails, too, or the process dies in between, the next load
// completes the move; for a message in the queue, missing is then set.
func (at *places) moveMessage(path string, from, to Place) (missing bool, err error) {
	at.moving.Lock()
	defer at.moving.Unlock()
	a, b, mode := at.pairs[from], at.pairs[to], to.prefixMode()
	if from != Queue {
		// In the queue it would be taken over and delivered.
		fd, _, err := at.controlOf(from).Open(a.transport, path, unix.O_RDONLY)
		if err == nil {
			postoffice.Close(fd)
		} else if errors.Is(err, postoffice.ErrForeign) {
			return false, fmt.Errorf("control file: %w", err)
		}
	}
	moved := true
	switch err := moveFile(a.queue, path, b.queue, path, mode); err {
	case nil:
	case unix.ENOENT:
		// Perhaps an earlier process got this far.
		moved = false
		if postoffice.Exists(a.transport, path) && !postoffice.Exists(b.queue, path) {
			return false, fmt.Errorf("message file: %w", err)
		}
	default:
		return false, fmt.Errorf("message file: %w", err)
	}
	err = moveFile(a.transport, path, b.transport, path, mode)
	if err != nil && moved {
		if undo := postoffice.Rename(b.queue, path, a.queue, path); undo != nil && from == Queue && err != unix.ENOENT {
			// An agent would find no message file and report a failure. So the
			// receiver drops the message, and the next load completes the move.
			at.warn(fmt.Sprintf("%q is between the queue and %s, and is moved when it is read again: %v", path, to, err))
			return true, nil
		}
	}
	if err == unix.ENOENT {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("control file: %w", err)
	}
	return false, nil
}

// controlOf returns how the control files of a place are opened.
func (at *places) controlOf(p Place) postoffice.Control {
	if p == Queue {
		return at.control
	}
	return at.control.Kept()
}

// prefixMode is the mode of the place's hash directories. In the queue, agents
// and routers work under other groups; in the other places only the scheduler
// works.
func (p Place) prefixMode() uint32 {
	if p == Queue {
		return 0o2755
	}
	return 0o750
}

// moveFile renames a file and makes the hash directories that it needs. ENOENT
// means that there is no such file, EEXIST that the new name is in use.
func moveFile(fromDir int, from string, toDir int, to string, mode uint32) error {
	err := postoffice.Rename(fromDir, from, toDir, to)
	prefix, _ := split(to)
	if err != unix.ENOENT || prefix == "" || !postoffice.Exists(fromDir, from) {
		return err
	}
	if err := postoffice.MakeHashDirs(toDir, prefix, mode); err != nil {
		return err
	}
	return postoffice.Rename(fromDir, from, toDir, to)
}

// rehash moves a message from the top of the queue into its hash directory and
// returns its new name. If that fails, the message stays where it is.
func (at *places) rehash(n Name) Name {
	dir := ctlfile.HashDir(n.ID, at.hashLevels)
	prefix, base := split(n.Path)
	if prefix != "" || dir == "" {
		return n
	}
	q, path := at.pairs[Queue], dir+base
	if moveFile(q.queue, base, q.queue, path, Queue.prefixMode()) != nil {
		return n
	}
	if moveFile(q.transport, base, q.transport, path, Queue.prefixMode()) != nil {
		_ = postoffice.Rename(q.queue, path, q.queue, base)
		return n
	}
	return Name{path, n.ID}
}

// resumeMove completes an interrupted move, for a control file in the queue
// without a message file beside it. It returns the control file's name and place
// after that; found is false if the message file is nowhere.
//
// A message file with a control file beside it belongs to that one.
func (at *places) resumeMove(n Name) (now Name, place Place, found bool, err error) {
	at.moving.Lock()
	defer at.moving.Unlock()
	prefix, base := split(n.Path)
	q := at.pairs[Queue]
	home := ctlfile.HashDir(n.ID, at.hashLevels)
	for levels := range maxDepth + 1 {
		dir := ctlfile.HashDir(n.ID, levels)
		other := dir + base
		if dir == prefix || !messageOnly(q, other) {
			continue
		}
		if prefix == "" && dir == home {
			err := moveFile(q.transport, n.Path, q.transport, other, Queue.prefixMode())
			return Name{other, n.ID}, Queue, true, err
		}
		err := moveFile(q.queue, other, q.queue, n.Path, Queue.prefixMode())
		return n, Queue, true, err
	}
	for _, p := range []Place{Hold, Corrupt} {
		if messageOnly(at.pairs[p], n.Path) {
			err := moveFile(q.transport, n.Path, at.pairs[p].transport, n.Path, p.prefixMode())
			return n, p, true, err
		}
	}
	return n, Queue, false, nil
}

// resumeRelease completes an interrupted release, for a control file under hold/ without a
// message file beside it. The error says where both are.
func (at *places) resumeRelease(path string) error {
	at.moving.Lock()
	defer at.moving.Unlock()
	q := at.pairs[Queue]
	prefix, base := split(path)
	// The message in the queue may be a new one with the number of a message that is gone.
	isNew := postoffice.Exists(q.transport, prefix+"."+base) || at.hasStaged()
	if isNew || !messageOnly(q, path) || postoffice.Exists(at.pairs[Hold].queue, path) {
		return &refusalError{why: Unreadable, reason: "there is no message file hold/queue/" + path}
	}
	if err := moveFile(at.pairs[Hold].transport, path, q.transport, path, Queue.prefixMode()); err != nil {
		return fmt.Errorf("completing a release: %w", err)
	}
	return &refusalError{why: Elsewhere, reason: "it was released, and its control file was moved to transport/ too", now: nameOf(path)}
}

// messageOnly reports whether a message file exists under this path without a
// control file beside it.
func messageOnly(p pair, path string) bool {
	var st unix.Stat_t
	return postoffice.Stat(p.queue, path, &st) == nil && postoffice.IsRegular(&st) && !postoffice.Exists(p.transport, path)
}

// split cuts a path into its hash prefix, with the slash, and its base name.
func split(path string) (prefix, base string) {
	i := strings.LastIndexByte(path, '/') + 1
	return path[:i], path[i:]
}
