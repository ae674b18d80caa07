package spool

// The reserve: room on the disk that only what ends mail may use.

import (
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// reserveDir is below $POSTOFFICE. It has reserveFiles files of reserveBytes zeros, so that
	// inodes are kept too.
	reserveDir   = ".reserve"
	reserveFiles = 16
	reserveBytes = 64 << 10
	// reservePause is the time between two attempts to make the reserve again.
	reservePause = time.Minute
)

// Reserve says that the reserve was made, or that it is gone, and why.
type Reserve struct{ Err error }

func (Reserve) result() {}

// reserve keeps room for the notice, or the diagnostic before it, without which a message
// cannot end. When the disk is full, its files are removed. They are made again when there is
// room for twice as much.
type reserve struct {
	s *Spool
	// mu is held while the last room is used: each notice that is written then frees its
	// message, before the next takes room.
	mu   sync.Mutex
	made bool // all its files are there
	told bool // the last result was that it is gone
}

// run is the goroutine that makes the reserve again.
func (r *reserve) run() {
	for r.s.pause(reservePause) {
		r.fill()
	}
}

// fill makes the reserve if it is not there and there is room for twice of it.
func (r *reserve) fill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made {
		return
	}
	if err := r.write(); err != nil {
		r.remove(err)
		return
	}
	r.made = true
	if r.told {
		r.told = false
		r.s.queue.add(Reserve{})
	}
}

// write writes the files that are not there, or that a crash has cut short.
func (r *reserve) write() error {
	office := r.s.places.office
	var missing []string
	for i := range reserveFiles {
		var st unix.Stat_t
		if postoffice.Stat(office, reserveFile(i), &st) != nil || st.Size != reserveBytes {
			missing = append(missing, reserveFile(i))
		}
	}
	if missing == nil {
		return nil
	}
	err := postoffice.Room{Bytes: 2 * reserveFiles * reserveBytes, Inodes: 2 * reserveFiles}.Check(r.s.options.Postoffice)
	if err == nil {
		err = postoffice.MakeDir(office, reserveDir, 0o700)
	}
	for _, file := range missing {
		if err == nil {
			err = postoffice.WriteFile(office, file, make([]byte, reserveBytes), false)
		}
	}
	return err
}

// remove removes the files of the reserve, and says so once.
func (r *reserve) remove(why error) {
	r.made = false
	for i := range reserveFiles {
		_ = postoffice.Remove(r.s.places.office, reserveFile(i))
	}
	if !r.told {
		r.told = true
		r.s.queue.add(Reserve{why})
	}
}

func reserveFile(i int) string { return reserveDir + "/" + strconv.Itoa(i) }

// spend does work that ends mail. If there is no room for it, the reserve is removed, and the
// work is done again, while no other work of this kind is.
func (r *reserve) spend(work func() error) error {
	err := work()
	if !IsFull(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made {
		r.remove(err)
	}
	return work()
}
