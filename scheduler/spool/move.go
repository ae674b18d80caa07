package spool

// How messages are moved between the queue, hold/ and corrupt/, and into hash directories: the
// message file first, then the control file. If only the first is moved, the next load brings
// it back to its control file, and who has moved it does so again.

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// move moves a message from one place to another. It overwrites nothing.
func (s *Spool) move(answer Answered, path string, from, to Place) {
	s.edit(path, func() {
		missing, err := s.places.moveMessage(path, from, to)
		if errors.Is(err, unix.EEXIST) && s.places.clearWay(path, to) {
			missing, err = s.places.moveMessage(path, from, to)
		}
		if err != nil {
			err = fmt.Errorf("moving %q from %s to %s: %w", path, from, to, err)
		}
		answer.Missing, answer.Err = missing, err
		s.queue.add(answer)
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

// moveMessage moves a message that the receiver knows. missing says that there is no such control
// file, or that it has lost its message file: an agent would report a failure.
func (at *places) moveMessage(path string, from, to Place) (missing bool, err error) {
	at.moving.Lock()
	defer at.moving.Unlock()
	a, b := at.pairs[from], at.pairs[to]
	if !postoffice.Exists(a.queue, path) && !postoffice.Exists(b.queue, path) && postoffice.Exists(a.transport, path) {
		return false, fmt.Errorf("message file: %w", unix.ENOENT)
	}
	apart, err := moveBoth(a, path, b, path, to.prefixMode())
	if apart || errors.Is(err, unix.ENOENT) && at.gone(a.transport, path) == errGone {
		return true, nil
	}
	if err == nil {
		at.foundIn(to.dir() + path)
	}
	return false, err
}

// moveBoth moves both files of a message, or the one that there is. If the second move fails,
// the first is undone; apart says that this failed too.
func moveBoth(a pair, from string, b pair, to string, mode uint32) (apart bool, err error) {
	err = moveFile(a.queue, from, b.queue, to, mode)
	if err != nil && err != unix.ENOENT {
		return false, fmt.Errorf("message file: %w", err)
	}
	moved := err == nil
	if err = moveFile(a.transport, from, b.transport, to, mode); err == nil {
		return false, nil
	}
	apart = moved && postoffice.Rename(b.queue, to, a.queue, from) != nil
	return apart, fmt.Errorf("control file: %w", err)
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

// moveFile makes the hash directories that a file needs, or finishes them, and renames the file. ENOENT
// means that there is no such file, EEXIST that the new name is in use.
func moveFile(fromDir int, from string, toDir int, to string, mode uint32) error {
	if prefix, _ := split(to); prefix != "" && postoffice.Exists(fromDir, from) {
		if err := postoffice.MakeHashDirs(toDir, prefix, mode); err != nil {
			return err
		}
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
	q := at.pairs[Queue]
	if _, err := moveBoth(q, base, q, dir+base, Queue.prefixMode()); err != nil {
		return n
	}
	return Name{dir + base, n.ID}
}

// fetchMessage moves a message file that has no control file beside it, in any place, to a
// control file with its number that has no message file. found is false if there is none.
func (at *places) fetchMessage(n Name) (found bool, err error) {
	at.moving.Lock()
	defer at.moving.Unlock()
	place, path := placeOf(n.Path)
	here := at.pairs[place]
	if postoffice.Exists(here.queue, path) || !postoffice.Exists(here.transport, path) {
		return true, nil
	}
	_, base := split(path)
	for p := range placeCount {
		for levels := range maxDepth + 1 {
			dir := ctlfile.HashDir(n.ID, levels)
			if !messageOnly(at.pairs[p], dir+base) {
				continue
			}
			if p == Queue && (postoffice.Exists(at.pairs[p].transport, dir+"."+base) || at.hasStaged()) {
				return false, fmt.Errorf("queue/%s%s may be its message file, or that of a new message", dir, base)
			}
			return true, moveFile(at.pairs[p].queue, dir+base, here.queue, path, place.prefixMode())
		}
	}
	return false, nil
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
