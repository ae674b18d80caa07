package smtpserver

// Flow control: mail is accepted slowly when the queue is long, and not at all when
// the queue is far too long or the disk is nearly full.

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

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
	// that took long.
	countPause = time.Second
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
	limits     map[string]int // of files, by directory of the postoffice
	minFree    int64          // bytes
	backlog    func() (Backlog, error)
	level      atomic.Int64 // files as a percentage of the limit, for the fullest directory
	log        zerolog.Logger

	mu      sync.Mutex
	fullest fullest
	logged  time.Time // when a refusal was logged

	asked  time.Time // when the free space was checked
	free   int64     // bytes
	inodes uint64    // free
}

// fullest is the directory whose files are the highest percentage of its limit.
type fullest struct {
	dir          string
	files, limit int
}

func (d fullest) level() int { return 100 * d.files / max(1, d.limit) }

// Backlog is what the scheduler knows about the mail in transport/.
type Backlog struct {
	Messages int // all of it
	Ready    int // jobs that are due or being delivered
}

// watch counts the files of each directory until done is closed. A count stops when
// more files make no difference, and counting takes at most a twentieth of the time.
// If transport/ is over its limit, deferred mail that waits for its next attempt does
// not count, because it does not hold up new mail.
func (f *flow) watch(done <-chan struct{}) {
	for {
		began, most := time.Now(), fullest{}
		for name, limit := range f.limits {
			if limit > 0 {
				if d := (fullest{name, f.count(name, limit), limit}); d.level() > most.level() {
					most = d
				}
			}
		}
		f.mu.Lock()
		f.fullest = most
		f.mu.Unlock()
		f.level.Store(int64(most.level()))
		select {
		case <-done:
			return
		case <-time.After(max(countPause, 20*time.Since(began))):
		}
	}
}

// count counts the files of router/ or transport/, up to refuseAt times the limit.
func (f *flow) count(name string, limit int) int {
	if name == "router" {
		return countSubmissions(f.postoffice, limit)
	}
	files := postoffice.CountControlFiles(filepath.Join(f.postoffice, name), refuseAt*limit)
	if files >= limit {
		files = f.withoutDeferred(files)
	}
	return files
}

// countSubmissions counts the files in router/ that the router takes. Those of a user
// other than root and this process's user count up to half the limit: one user alone must
// not delay the mail of all.
func countSubmissions(office string, limit int) int {
	files, own, share := 0, uint32(os.Geteuid()), (limit+1)/2
	others := map[uint32]int{}
	// What cannot be read is not counted.
	_ = postoffice.EachSubmission(office, func(_ string, info os.FileInfo) bool {
		uid := info.Sys().(*syscall.Stat_t).Uid
		if uid != 0 && uid != own {
			if others[uid] == share {
				return true
			}
			others[uid]++
		}
		files++
		return files < refuseAt*limit
	})
	return files
}

// withoutDeferred returns how many of the files in transport/ are new or due. If the
// scheduler does not answer, all of them count.
func (f *flow) withoutDeferred(files int) int {
	if f.backlog == nil {
		return files
	}
	b, err := f.backlog()
	if err != nil {
		return files
	}
	return min(files, b.Ready+max(0, files-b.Messages))
}

// delay returns how long a message has to wait now.
func (f *flow) delay() time.Duration {
	return min(maxFlowDelay, flowDelay*time.Duration(f.level.Load()/100))
}

// admit returns an error if a message of this size, in bytes, cannot be accepted now.
func (f *flow) admit(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.level.Load() >= 100*refuseAt {
		f.logBusy()
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

// logBusy logs that mail is refused, unless that was logged in the last minute. The
// caller holds mu.
func (f *flow) logBusy() {
	if now := time.Now(); now.Sub(f.logged) >= busyLogPause {
		f.logged = now
		f.log.Warn().Str("directory", f.fullest.dir).Int("files", f.fullest.files).Int("limit", f.fullest.limit).
			Msg("mail is refused, because the queue is too long")
	}
}
