package smtpserver

// Flow control: mail is accepted slowly when the queue is long, and not at all when
// the queue is far too long or the disk is nearly full.

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"
	"golang.org/x/sys/unix"

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
)

var (
	errFull = &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 3, 1}, Message: "Not enough disk space"}
	errBusy = &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "The queue is too long"}
)

// flow says whether there is room for a message, and how fast it may come.
type flow struct {
	postoffice string
	limits     map[string]int // of files, by directory of the postoffice
	minFree    int64          // bytes
	backlog    func() (Backlog, error)
	level      atomic.Int64 // files as a percentage of the limit, for the fullest directory

	mu     sync.Mutex
	asked  time.Time // when the free space was checked
	free   int64     // bytes
	inodes uint64    // free
}

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
		began, level := time.Now(), 0
		for name, limit := range f.limits {
			if limit > 0 {
				files := countFiles(filepath.Join(f.postoffice, name), refuseAt*limit)
				if name == "transport" && files >= limit {
					files = f.withoutDeferred(files)
				}
				level = max(level, 100*files/limit)
			}
		}
		f.level.Store(int64(level))
		select {
		case <-done:
			return
		case <-time.After(max(countPause, 20*time.Since(began))):
		}
	}
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

// countFiles counts the files in a directory and in its hash directories. It stops at
// enough.
func countFiles(dir string, enough int) int {
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, dir)
	if err != nil {
		return 0
	}
	defer postoffice.Close(fd)
	n := 0
	buf := make([]byte, 32<<10)
	var names []string
	for n < enough {
		read, err := postoffice.Getdents(fd, buf)
		if err != nil || read <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:read], -1, names[:0])
		for _, name := range names {
			if len(name) == 1 && name[0] >= 'A' && name[0] <= 'Z' {
				n += countFiles(filepath.Join(dir, name), enough-n)
			} else {
				n++
			}
		}
	}
	return n
}

// delay returns how long a message has to wait now.
func (f *flow) delay() time.Duration {
	return min(maxFlowDelay, flowDelay*time.Duration(f.level.Load()/100))
}

// admit returns an error if a message of this size, in bytes, cannot be accepted now.
func (f *flow) admit(size int64) error {
	if f.level.Load() >= 100*refuseAt {
		return errBusy
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.asked) > diskPause {
		var st unix.Statfs_t
		if err := postoffice.Statfs(f.postoffice, &st); err != nil {
			return nil // writing the message will return the error
		}
		f.asked = time.Now()
		f.free, f.inodes = int64(st.Bavail)*st.Bsize, st.Ffree
		if st.Files == 0 { // the file system has no fixed number of inodes
			f.inodes = minInodes
		}
	}
	if f.free-size < f.minFree || f.inodes < minInodes {
		return errFull
	}
	f.free -= size // an estimate until the next check
	return nil
}
