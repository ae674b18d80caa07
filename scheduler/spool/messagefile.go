package spool

// The message file of a control file that is loaded: where it is, and what stands for it if it
// is nowhere.

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// locate finds the message file and moves both files to their hash directory. It returns
// the status of the message file, and the name that the control file has now.
func (t *loader) locate(n Name, d *controlFile) (st unix.Stat_t, now Name, err error) {
	place, path := placeOf(n.Path)
	for range 2 {
		err := postoffice.Stat(t.s.places.pairs[place].queue, path, &st)
		switch {
		case err == nil && postoffice.IsRegular(&st):
			now, err := t.prepare(n, d, &st)
			return st, now, err
		case err != nil && err != unix.ENOENT:
			return st, n, err
		case place == Hold && err != nil:
			return st, n, t.s.places.resumeRelease(path)
		}
		exists := err == nil
		moved, found, err := t.completeMove(n)
		switch {
		case err != nil:
			return st, n, err
		case !found && exists:
			return st, n, &malformed{place.dir() + "queue/" + path + " is not a regular file"}
		case !found:
			st, err := t.withoutMessage(n, d)
			return st, n, err
		}
		n, path, d.path = moved, moved.Path, moved.Path
	}
	return st, n, &refusalError{why: Unreadable, reason: "its message file is being moved"}
}

// prepare gives a message file the owner, the time and the name that a message in the queue
// has. Under hold/ it stays as it is until it is released.
func (t *loader) prepare(n Name, d *controlFile, st *unix.Stat_t) (now Name, err error) {
	if st.Size < d.file.Body {
		return n, &malformed{fmt.Sprintf("the message file has %d bytes, and its body begins after %d", st.Size, d.file.Body)}
	}
	if place, _ := placeOf(n.Path); place == Hold {
		return n, nil
	}
	queue := t.s.places.pairs[Queue].queue
	t.s.places.control.ShareMessage(queue, n.Path, st)
	postoffice.EndFuture(queue, n.Path, st)
	now = t.s.places.rehash(n)
	d.path = now.Path
	return now, nil
}

// completeMove completes an interrupted move of the message. found is false if there was
// none. The error is a refusalError if the message is in another place after that.
func (t *loader) completeMove(n Name) (now Name, found bool, err error) {
	if err := t.s.standing.isDown(); err != nil {
		return n, false, err
	}
	now, place, found, err := t.s.places.resumeMove(n)
	if err == nil && found && place != Queue {
		other := &refusalError{why: Elsewhere, reason: "its message file is in " + place.dir() + "queue; the control file was moved there too"}
		if place == Hold {
			other.now = Name{underHold + now.Path, now.ID}
		}
		err = other
	}
	return now, found, err
}

// withoutMessage returns what stands for the message file of a control file that has lost
// it: the message is loaded with the time of its control file, and its recipients fail as
// soon as an agent finds no message file. It is an error if the control file is new, or if the
// directory of the message file is missing.
func (t *loader) withoutMessage(n Name, d *controlFile) (st unix.Stat_t, err error) {
	q := t.s.places.pairs[Queue]
	if err := postoffice.Stat(q.transport, n.Path, &st); err != nil || st.Ino != d.st.Ino || st.Dev != d.st.Dev {
		return st, errGone // both files have left since the control file was read
	}
	prefix, base := split(n.Path)
	for levels := range maxDepth + 1 {
		if other := ctlfile.HashDir(n.ID, levels) + base; other != n.Path && postoffice.Exists(q.transport, other) {
			return st, &malformed{"there is no message file queue/" + n.Path + ", and transport/" + other + " has the same number"}
		}
	}
	if prefix != "" {
		if err := postoffice.Stat(q.queue, strings.TrimSuffix(prefix, "/"), &st); err != nil {
			return st, fmt.Errorf("the directory queue/%s of its message file: %w", prefix, err)
		}
	}
	if time.Since(time.Unix(d.st.Mtim.Unix())).Abs() < graceTime {
		return st, &refusalError{why: Unfinished, reason: "there is no message file queue/" + n.Path}
	}
	return unix.Stat_t{Mtim: d.st.Mtim, Uid: d.st.Uid}, nil
}
