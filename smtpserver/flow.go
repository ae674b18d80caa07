package smtpserver

// Flow control: mail is accepted slowly when many submissions wait for the router, and not at
// all when there are far too many or the disk is nearly full.

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logs"
	"zsched/internal/postoffice"
)

const (
	// flowDelay is how long a message is delayed when the number of files is the limit;
	// at twice the limit the delay doubles, and so on.
	flowDelay = time.Second
	// maxFlowDelay is the longest delay.
	maxFlowDelay = 10 * time.Second
	// refuseAt is the multiple of a limit at which messages are refused.
	refuseAt = 20
	// countPause is the shortest time between two counts; it is longer after a count
	// that took long, up to maxCountPause.
	countPause    = time.Second
	maxCountPause = 10 * time.Second
	// diskPause is how long the result of a check of the free space is used.
	diskPause = time.Second
	// minInodes is how many inodes stay free.
	minInodes = 1000
	// busyLogPause is the shortest time between two log lines about refused mail.
	busyLogPause = time.Minute
)

// flow says whether there is room for a message, and how fast it may come.
type flow struct {
	postoffice string
	limit      int          // of files in router/ at which mail is delayed; 0: none
	minFree    int64        // bytes
	files      atomic.Int64 // in router/
	log        zerolog.Logger

	busy logs.Throttle // one line about refused mail

	mu     sync.Mutex
	asked  time.Time // when the free space was checked
	free   int64     // bytes
	inodes uint64    // free
}

// watch counts the files of router/ until done is closed. A count stops when more files make
// no difference, and counting takes at most a twentieth of the time.
func (f *flow) watch(done <-chan struct{}) {
	for f.limit > 0 {
		began := time.Now()
		f.files.Store(int64(countSubmissions(f.postoffice, f.limit)))
		select {
		case <-done:
			return
		case <-time.After(min(max(countPause, 20*time.Since(began)), maxCountPause)):
		}
	}
}

// timesFull returns how many times the limit of files is reached.
func (f *flow) timesFull() int64 {
	if f.limit == 0 {
		return 0
	}
	return f.files.Load() / int64(f.limit)
}

// countSubmissions counts the files in router/ that the router takes, of root and this process's user.
// Those of other users have turns of their own in the router, and do not delay the mail of this server.
func countSubmissions(office string, limit int) int {
	files := 0
	// What cannot be read is not counted.
	_ = postoffice.EachSubmission(office, func(_ string, info os.FileInfo) bool {
		if postoffice.IsOurs(info.Sys().(*syscall.Stat_t).Uid) {
			files++
		}
		return files < refuseAt*limit
	})
	return files
}

// delay returns how long a message has to wait now.
func (f *flow) delay() time.Duration {
	return min(maxFlowDelay, flowDelay*time.Duration(f.timesFull()))
}

// room is how many bytes may be written, by the last check.
func (f *flow) room() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.free - f.minFree
}

// admit returns an error if a message of this size, in bytes, cannot be accepted now.
func (f *flow) admit(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timesFull() >= refuseAt {
		if f.busy.Allow("", time.Now()) {
			f.log.Warn().Str("directory", "router").Int64("files", f.files.Load()).Int("limit", f.limit).
				Msg("mail is refused, because the queue is too long")
		}
		return errBusy
	}
	if time.Since(f.asked) > diskPause {
		free, inodes, err := postoffice.FreeSpace(f.postoffice)
		if err != nil {
			return nil // writing the message will return the error
		}
		f.asked, f.free, f.inodes = time.Now(), free, inodes
	}
	if f.free-size < f.minFree || f.inodes < minInodes {
		return errFull
	}
	f.free -= size // an estimate until the next check
	return nil
}
