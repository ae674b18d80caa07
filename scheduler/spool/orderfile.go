package spool

// The orders that wait at a stop: hold/pending, which the next scheduler reads.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// PendingOrder is an order on recipients of a message for one channel and host.
type PendingOrder struct {
	ID            uint64 // number of the control file
	ModifiedAt    time.Time
	Path          string // of the control file below transport/
	Verb          string // in the words of mailq: KILL
	Channel, Host string
	To            Thread // of a REROUTE
	Offsets       []int64
	By, Why       string
}

// pendingFile has a line for each order, with all texts quoted as in Go:
//
//	NUMBER NANOSECONDS "PATH" "VERB" "CHANNEL" "HOST" "TO-CHANNEL" "TO-HOST" "OFFSETS" "BY" "WHY"
const pendingFile = "hold/pending"

const pendingFormat = "%d %d %q %q %q %q %q %q %q %q %q\n"

// SavePendingOrders replaces the file, in the caller's goroutine. It leaves out orders on
// control files that are gone. If none is left, there is no file.
func (s *Spool) SavePendingOrders(orders []PendingOrder) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed() {
		return errClosed
	}
	var text []byte
	for i := range orders {
		o := &orders[i]
		var st unix.Stat_t
		if place, path := placeOf(o.Path); postoffice.Stat(s.pair(place).transport, path, &st) == unix.ENOENT {
			continue
		}
		offsets := strings.Trim(fmt.Sprint(o.Offsets), "[]")
		text = fmt.Appendf(text, pendingFormat, o.ID, o.ModifiedAt.UnixNano(), o.Path, o.Verb, o.Channel, o.Host,
			o.To.Channel, o.To.Host, offsets, o.By, o.Why)
	}
	if len(text) == 0 {
		if err := postoffice.Remove(s.office, pendingFile); err != nil && err != unix.ENOENT {
			return err
		}
		return nil
	}
	if _, err := s.obtainPair(Hold); err != nil {
		return err
	}
	if err := postoffice.ReplaceFile(s.office, "hold/.pending", pendingFile, text); err != nil {
		return err
	}
	return postoffice.SyncDirAt(s.office, "hold")
}

// PendingOrders reads the file. The error also names the lines that it cannot read.
func (s *Spool) PendingOrders() (orders []PendingOrder, err error) {
	text, err := postoffice.ReadFile(s.office, pendingFile, math.MaxInt64)
	if err == unix.ENOENT {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", pendingFile, err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		o, e := parsePendingOrder(line)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s:%d: %w", pendingFile, n, e))
			continue
		}
		orders = append(orders, o)
	}
	return orders, err
}

func parsePendingOrder(line string) (o PendingOrder, err error) {
	var modified int64
	var offsets string
	_, err = fmt.Sscanf(line, pendingFormat, &o.ID, &modified, &o.Path, &o.Verb, &o.Channel, &o.Host,
		&o.To.Channel, &o.To.Host, &offsets, &o.By, &o.Why)
	o.ModifiedAt = time.Unix(0, modified)
	for _, word := range strings.Fields(offsets) {
		offset, e := strconv.ParseInt(word, 10, 64)
		err = errors.Join(err, e)
		o.Offsets = append(o.Offsets, offset)
	}
	slices.Sort(o.Offsets)
	return o, err
}
