package spool

// The message file of a control file that is loaded.

import (
	"fmt"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// locate finds the message file and moves both files to their hash directory. It returns
// the status of the message file, and the name that the control file has now.
func (t *loader) locate(n Name, d *controlFile) (st unix.Stat_t, now Name, err error) {
	place, path := placeOf(n.Path)
	queue := t.s.places.pairs[place].queue
	err = postoffice.Stat(queue, path, &st)
	if err == unix.ENOENT {
		if err = t.fetch(n, d); err == nil {
			err = postoffice.Stat(queue, path, &st)
		}
	}
	switch {
	case err != nil:
		return st, n, err
	case !postoffice.IsRegular(&st):
		return st, n, &malformed{place.dir() + "queue/" + path + " is not a regular file"}
	case st.Size < d.file.Body && postoffice.IsOurs(st.Uid): // a user may have done it: agents defer his until it expires
		return st, n, &malformed{fmt.Sprintf("the message file has %d bytes, and its body begins after %d", st.Size, d.file.Body)}
	}
	// It gets the owner and the time that a message in the queue has.
	t.s.places.control.ShareMessage(queue, path, &st)
	postoffice.EndFuture(queue, path, &st)
	if place == Queue {
		n = t.s.places.rehash(n)
	}
	return st, n, nil
}

// fetch brings back the message file of a control file, from where an interrupted move has left
// it. A control file that has lost its message file is malformed, unless the directory of the
// message file is missing, which may come back.
func (t *loader) fetch(n Name, d *controlFile) error {
	if err := t.s.standing.isDown(); err != nil {
		return err
	}
	place, path := placeOf(n.Path)
	in := t.s.places.pairs[place]
	if found, err := t.s.places.fetchMessage(n); found || err != nil {
		return err
	}
	var st unix.Stat_t
	switch err := postoffice.Stat(in.transport, path, &st); {
	case err == unix.ENOENT: // both files have left since the control file was read
		return t.s.places.gone(in.transport, path)
	case err != nil:
		return err
	case st.Ino != d.st.Ino || st.Dev != d.st.Dev:
		return errGone
	}
	if err := t.s.places.gone(in.queue, path); err != errGone {
		return fmt.Errorf("the message file %squeue/%s: %w", place.dir(), path, err)
	}
	return &malformed{"there is no message file " + place.dir() + "queue/" + path}
}
