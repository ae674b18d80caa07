package receiver

// The limits on a push: its size, the disk that it may fill, and the time that it takes.

import (
	"errors"
	"fmt"
	"io"
	"time"

	"zsched/internal/postoffice"
	"zsched/xfer"
)

// admit returns the reply to a push that is refused before it is read, because of the
// size that it announces.
func (s *Store) admit(push *xfer.Push) (refusal xfer.Reply, ok bool) {
	if limit := s.options.MaxSize; limit > 0 && push.Message > limit {
		return xfer.Reply{
			Code: xfer.TooLarge, Tag: push.Tag,
			Text: fmt.Sprintf("the message has %d bytes, and this node takes at most %d", push.Message, limit),
		}, false
	}
	free, _, err := postoffice.FreeSpace(s.messages)
	if err != nil {
		return refusal, true // writing the message will return the error
	}
	if push.Message > free-s.options.MinFree {
		return xfer.Reply{
			Code: xfer.Full, Tag: push.Tag,
			Text: fmt.Sprintf("the message has %d bytes, and %d are free on the disk of this node, of which it leaves %d", push.Message, free, s.options.MinFree),
		}, false
	}
	return refusal, true
}

// ratePeriod is the time over which the rate of a push is measured.
const ratePeriod = 5 * time.Minute

// errSlow says that a node pushes too slowly.
var errSlow = errors.New("it sends too slowly")

// pacedReader reads a push, and returns an error when a period is over in which the node
// has sent less than the least rate. A node that sends a byte now and then could otherwise
// keep a file on the disk for ever.
type pacedReader struct {
	from  io.Reader
	least int64 // bytes in a period; 0: any rate will do
	began time.Time
	sent  int64 // since then
}

// paced returns a reader of one push that needs at least rate bytes a second.
func paced(from io.Reader, rate int64) *pacedReader {
	return &pacedReader{from: from, least: rate * int64(ratePeriod/time.Second), began: time.Now()}
}

func (r *pacedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.sent += int64(n)
	if time.Since(r.began) >= ratePeriod {
		if err == nil && r.sent < r.least {
			err = fmt.Errorf("%w: %d bytes in %v", errSlow, r.sent, ratePeriod)
		}
		r.began, r.sent = time.Now(), 0
	}
	return n, err
}
