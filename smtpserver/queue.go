package smtpserver

// The queue: messages in router/, on disk before the client hears 250.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// tempPrefix begins the name of an incomplete message in public/. The pid of
// its writer follows.
const tempPrefix = ".smtpserver-"

const (
	maxBatch = 256
	// wholeSync is the number of files from which one sync of the file system
	// costs less than a sync of each.
	wholeSync = 3
)

// queue gives complete messages to the router. Messages that are complete at
// the same time share their waits for the disk: while one batch is synced, the
// next one gathers.
type queue struct {
	router   ctlfile.Router
	notify   string           // the scheduler's socket, for ETRN
	office   *postoffice.File // public/
	complete chan *incoming
	stopped  chan struct{}

	mu      sync.Mutex
	closing bool
	open    sync.WaitGroup // one for each message that is being received

	// syncAll makes all data of the file system durable, and syncFile that of
	// one file; tests replace them.
	syncAll  func() error
	syncFile func(*postoffice.File) error
}

// incoming is a message that is being received.
type incoming struct {
	file *postoffice.File
	w    *bufio.Writer
	name string     // below router/, when it is there
	done chan error // has the result of commit
}

func openQueue(router ctlfile.Router, notify string) (*queue, error) {
	office, err := postoffice.OpenDirFile(filepath.Join(router.Postoffice, "public"))
	if err != nil {
		return nil, fmt.Errorf("open postoffice: %w", err)
	}
	q := &queue{
		router: router, notify: notify, office: office,
		complete: make(chan *incoming, maxBatch), stopped: make(chan struct{}),
		syncFile: (*postoffice.File).Sync,
	}
	q.syncAll = office.SyncAll
	q.removeAbandoned()
	go q.run()
	return q, nil
}

// close ends the queue when all messages that were begun are committed or
// discarded.
func (q *queue) close() {
	q.mu.Lock()
	q.closing = true
	q.mu.Unlock()
	q.open.Wait()
	close(q.complete)
	<-q.stopped
	_ = q.office.Close()
}

// removeAbandoned removes what processes that are gone have left in public/.
// None of it was acknowledged.
func (q *queue) removeAbandoned() {
	names, _ := postoffice.ReadNames(q.office.Name())
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, tempPrefix)
		if !ours {
			continue
		}
		word, _, _ := strings.Cut(rest, "-")
		pid, err := strconv.Atoi(word)
		if err == nil && pid > 0 && pid != os.Getpid() && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = postoffice.RemovePath(filepath.Join(q.office.Name(), name))
		}
	}
}

// create opens a file for a message.
func (q *queue) create() (*incoming, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return nil, errors.New("create message: the server stops")
	}
	f, err := postoffice.CreateIn(q.office.Name(), fmt.Sprintf("%s%d-", tempPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("create message: %w", err)
	}
	q.open.Add(1)
	return &incoming{file: f, w: bufio.NewWriterSize(f, 16<<10), done: make(chan error, 1)}, nil
}

// discard removes a message that is not committed.
func (q *queue) discard(m *incoming) {
	m.remove()
	q.open.Done()
}

func (m *incoming) remove() {
	_ = m.file.Close()
	_ = postoffice.RemovePath(m.file.Name())
}

// commit gives a complete message to the router. When it returns nil, the
// message and its name are on disk. After an error the message is not in the
// queue, or it is there but may not survive a crash of the machine.
func (q *queue) commit(m *incoming) error {
	if err := m.w.Flush(); err != nil {
		q.discard(m)
		return fmt.Errorf("write message: %w", err)
	}
	m.w = nil
	defer q.open.Done()
	q.complete <- m
	return <-m.done
}

func (q *queue) run() {
	defer close(q.stopped)
	for first := range q.complete {
		batch := []*incoming{first}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case m, ok := <-q.complete:
				if more = ok; ok {
					batch = append(batch, m)
				}
			default:
				more = false
			}
		}
		q.commitAll(batch)
	}
}

// commitAll syncs the messages of a batch, renames them and syncs their names.
// It waits for the disk twice, or once more for a batch of two.
func (q *queue) commitAll(batch []*incoming) {
	whole := len(batch) >= wholeSync
	var all error
	if whole {
		all = q.syncAll()
	}
	var good []*incoming
	var files []string
	for _, m := range batch {
		err := all
		if !whole {
			err = q.syncFile(m.file)
		}
		if err != nil {
			m.remove()
			m.done <- fmt.Errorf("sync message: %w", err)
			continue
		}
		_ = m.file.Close()
		good, files = append(good, m), append(files, m.file.Name())
	}
	if len(good) == 0 {
		return
	}
	names, errs := q.router.GiveAll(files, q.syncDirs)
	for i, m := range good {
		if names[i] == "" {
			_ = postoffice.RemovePath(files[i])
		}
		m.name = names[i]
		m.done <- errs[i]
	}
}

func (q *queue) syncDirs(dirs []string) error {
	if len(dirs) >= wholeSync {
		return q.syncAll()
	}
	for _, dir := range dirs {
		if err := syncdir.Sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// trigger writes the control file of one T line by which the scheduler tries a
// host's mail now. It need not survive a crash.
func (q *queue) trigger(host, from string) error {
	transport := filepath.Join(q.router.Postoffice, "transport")
	f, err := postoffice.CreateIn(transport, ".etrn-")
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, "T "+host+" "+from+"\n")
	info, e := f.Stat()
	if err = errors.Join(err, e, f.Close()); err == nil {
		name := strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10) + "-etrn"
		if err = postoffice.Replace(postoffice.WorkingDir, f.Name(), postoffice.WorkingDir, filepath.Join(transport, name)); err == nil {
			// The scheduler finds the file by itself, only later.
			_ = ctlfile.Announce(q.notify, name)
			return nil
		}
	}
	_ = postoffice.RemovePath(f.Name())
	return err
}
