// Package receiver takes mail that other nodes push (package xfer) and puts it into the
// queue of this node.
//
// The messages that are complete at the same time are taken as one batch, so that they
// share the waits for the disk:
//
//	step                                            a crash after it leaves
//	1 write  queue/.xfer/m-TOKEN, the message,       files that are removed
//	         and transport/.xfer/c-TOKEN, the
//	         control file
//	2 sync   both                                   files that are removed
//	3 record the origins in transport/.xfer/origins, recipients that the next start
//	         and sync it                            puts into the queue
//	4 rename m-TOKEN to queue/F/F/N, and sync;       the same
//	  of a held message, write its hold record
//	5 rename c-TOKEN to transport/F/F/N, and sync    mail that is in the queue
//	6 answer 250                                     nothing to do
//
// From step 3 on, a push of the same recipients is answered with 250. A control file of
// a held message is named h-TOKEN, and goes to hold/. When a step from 3 on fails, the
// whole batch is answered with 451, and before the next batch everything is read from
// the disk again, as at a start.
package receiver

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

// Options say where the mail goes, and what is taken.
type Options struct {
	Postoffice string
	HashLevels int    // of transport/ and queue/: 0, 1 or 2
	Notify     string // the scheduler's notify socket, a path; "": none
	// Channels are the channels of recipients that are taken; allowed.go has the
	// rules. Programs takes recipients of all channels, also programs (|command),
	// files (/path) and lists (:include:), with the privileges that they have.
	Channels []string
	Programs bool
	// Keep is how long mail may wait at the sender, and so how long origins are kept
	// that it has not confirmed: at least a week.
	Keep time.Duration
	// MaxSize is the size in bytes of the largest message that is taken; 0: no limit.
	// MinFree is how many bytes of the disk a message leaves free.
	MaxSize, MinFree int64
	// MaxOrigins is how many bytes of memory the origins of one node may need that it has
	// not confirmed; those of all nodes may need four times as many. 0: no limit.
	MaxOrigins int64
}

const (
	// minKeep is how long origins are kept at least.
	minKeep = 7 * 24 * time.Hour
	// UntilConfirmed, as Options.Keep, keeps them until they are confirmed.
	UntilConfirmed time.Duration = math.MaxInt64
)

// Store is the part of a postoffice in which mail arrives from other nodes.
type Store struct {
	// Check is called before every step that works on files of the queue. While it returns
	// an error, nothing is taken; nil: nothing is checked.
	Check func() error

	options Options
	// controls and messages are the directories of files that are not in the queue
	// yet.
	controls, messages string
	group              int // of transport/
	root               bool
	office             *postoffice.File
	roots              []*postoffice.File // one directory of each file system of the queue

	mu     sync.Mutex
	active map[string]bool // tokens of messages that are being written or taken

	// The rest belongs to the committer.
	origins *origins
	broken  bool             // origins are to be read again
	stuck   map[string]error // tokens whose files cannot be put into the queue
	made    map[string]bool  // hash directories that exist
}

// OpenStore makes the directories that are missing, and puts into the queue what a
// crash has left of the mail that was taken.
func OpenStore(o Options) (*Store, error) {
	o.Keep = max(o.Keep, minKeep)
	s := &Store{
		options: o, active: make(map[string]bool), root: os.Geteuid() == 0,
		controls: filepath.Join(o.Postoffice, "transport", stagedDir),
		messages: filepath.Join(o.Postoffice, "queue", stagedDir),
	}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open() (err error) {
	office := s.options.Postoffice
	if s.group, err = postoffice.Group(filepath.Join(office, "transport")); err != nil {
		return err
	}
	if s.office, err = postoffice.OpenDirFile(office); err != nil {
		return err
	}
	var devices []uint64
	if err := s.makeDirs(); err != nil {
		return err
	}
	for _, dir := range []string{s.controls, s.messages} {
		root, err := postoffice.OpenDirFile(filepath.Dir(dir))
		if err != nil {
			return err
		}
		s.roots = append(s.roots, root)
		info, err := root.Stat()
		if err != nil {
			return err
		}
		devices = append(devices, info.Sys().(*syscall.Stat_t).Dev)
	}
	if devices[0] == devices[1] {
		_ = s.roots[1].Close()
		s.roots = s.roots[:1]
	}
	return s.recover()
}

// makeDirs makes the directories of files that are not in the queue yet.
func (s *Store) makeDirs() error {
	for _, dir := range []string{s.controls, s.messages} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err != nil {
			return fmt.Errorf("making %q: %w", dir, err)
		}
	}
	return nil
}

// Close closes the files. No message may be being taken.
func (s *Store) Close() {
	if s.origins != nil {
		_ = s.origins.file.Close()
	}
	for _, root := range s.roots {
		_ = root.Close()
	}
	if s.office != nil {
		_ = s.office.Close()
	}
}

// recover reads the origins, puts into the queue the mail whose origins are recorded,
// and removes other files that no connection works on.
func (s *Store) recover() error {
	if err := s.keepOrigins(); err != nil {
		return err
	}
	opened, err := openOrigins(filepath.Join(s.controls, originsName), s.options.Keep, s.options.MaxOrigins)
	if err != nil {
		return err
	}
	if s.origins != nil {
		_ = s.origins.file.Close()
	}
	s.origins = opened
	s.stuck, s.made = make(map[string]error), make(map[string]bool)
	recorded := make(map[string]bool)
	for _, one := range s.origins.taken {
		recorded[one.token] = true
	}
	names, err := postoffice.ReadNames(s.controls)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		token, ok := strings.CutPrefix(name, queuedPrefix)
		if !ok {
			token, ok = strings.CutPrefix(name, heldPrefix)
		}
		if !ok || !recorded[token] {
			continue
		}
		if err := s.resume(token, filepath.Join(s.controls, name)); err != nil {
			s.stuck[token] = err
		}
	}
	s.removeStale(s.controls, recorded)
	s.removeStale(s.messages, recorded)
	s.broken = false
	return nil
}

// removeStale removes files that are not recorded and that nobody works on.
func (s *Store) removeStale(dir string, recorded map[string]bool) {
	names, _ := postoffice.ReadNames(dir)
	for _, name := range names {
		if len(name) > 2 && name[1] == '-' && !recorded[name[2:]] && !s.active[name[2:]] {
			_ = postoffice.RemovePath(filepath.Join(dir, name))
		}
	}
}

// syncPath syncs a file that is closed.
func syncPath(path string) error {
	file, err := postoffice.OpenFile(path, unix.O_RDONLY)
	if err != nil {
		return err
	}
	err = file.Sync()
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}
