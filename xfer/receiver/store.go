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
//	4 rename m-TOKEN to queue/F/F/N, and sync        the same
//	5 rename c-TOKEN to transport/F/F/N, and sync    mail that is in the queue
//	6 answer 250                                     nothing to do
//
// From step 3 on, a push of the same recipients is answered with 250. A control file of
// a held message is named h-TOKEN, and goes to hold/. When a step from 3 on fails, the
// whole batch is answered with 451, and before the next batch everything is read from
// the disk again, as at a start.
package receiver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
	"zsched/xfer"
)

// Options say where the mail goes, and what is taken.
type Options struct {
	Postoffice string
	HashLevels int    // of transport/ and queue/: 0, 1 or 2
	Notify     string // the scheduler's notify socket, a path; "": none
	// Programs allows recipients that are programs (|command), files (/path) or
	// lists (:include:).
	Programs bool
	// Keep is how long origins are kept that the sender has not confirmed; 0: a
	// week.
	Keep time.Duration
}

// keepOrigins is how long origins are kept at least.
const keepOrigins = 7 * 24 * time.Hour

// The directory of files that are not in the queue yet, below transport/ and queue/, and
// how their names begin.
const (
	stagedDir     = ".xfer"
	messagePrefix = "m-"
	queuedPrefix  = "c-"
	heldPrefix    = "h-"
)

// Store is the part of a postoffice in which mail arrives from other nodes.
type Store struct {
	options Options
	// controls and messages are the directories of files that are not in the queue
	// yet.
	controls, messages string
	group              int // of transport/
	root               bool
	roots              []*postoffice.File // transport/ and queue/, to sync their file systems

	mu     sync.Mutex
	active map[string]bool // tokens of messages that are being written or taken

	// The rest belongs to the committer.
	origins *origins
	broken  bool             // origins are to be read again
	stuck   map[string]error // tokens whose files cannot be put into the queue
	made    map[string]bool  // hash directories that exist
}

// arrival is a message that a node pushes.
type arrival struct {
	push    xfer.Push
	token   string
	message *postoffice.File
	control *ctlfile.File

	reply   xfer.Reply
	origins []ctlfile.Origin // of the recipients that are taken now
	staged  string           // path of the control file that is not in the queue yet
	name    string           // of the message in the queue
	dir     string           // "" or "hold/"
}

// OpenStore makes the directories that are missing, and puts into the queue what a
// crash has left of the mail that was taken.
func OpenStore(o Options) (*Store, error) {
	o.Keep = max(o.Keep, keepOrigins)
	s := &Store{
		options: o, active: make(map[string]bool), root: os.Geteuid() == 0,
		controls: filepath.Join(o.Postoffice, "transport", stagedDir),
		messages: filepath.Join(o.Postoffice, "queue", stagedDir),
	}
	var err error
	if s.group, err = postoffice.Group(filepath.Join(o.Postoffice, "transport")); err != nil {
		return nil, err
	}
	for _, dir := range []string{s.controls, s.messages} {
		if err := postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err != nil {
			return nil, fmt.Errorf("making %q: %w", dir, err)
		}
		root, err := postoffice.OpenDirFile(filepath.Dir(dir))
		if err != nil {
			return nil, err
		}
		s.roots = append(s.roots, root)
	}
	if err := s.recover(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the files. No message may be being taken.
func (s *Store) Close() {
	if s.origins != nil {
		_ = s.origins.file.Close()
	}
	for _, root := range s.roots {
		_ = root.Close()
	}
}

// recover reads the origins, puts into the queue the mail whose origins are recorded,
// and removes other files that no connection works on.
func (s *Store) recover() error {
	opened, err := openOrigins(filepath.Join(s.controls, originsName), s.options.Keep)
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

// resume puts one message into the queue whose origins are recorded.
func (s *Store) resume(token, control string) error {
	text, err := postoffice.ReadFile(postoffice.WorkingDir, control, xfer.MaxControl)
	if err != nil {
		return err
	}
	f, err := ctlfile.Parse(text)
	if err != nil {
		return err
	}
	a := &arrival{token: token, staged: control, name: f.Name}
	if strings.HasPrefix(filepath.Base(control), heldPrefix) {
		a.dir = "hold/"
	}
	for _, publish := range []func(*arrival) (string, error){s.publishMessage, s.publishControl} {
		dir, err := publish(a)
		if err == nil {
			err = syncdir.Sync(dir)
		}
		if err != nil {
			return err
		}
	}
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

// create makes the file of a message that is about to be read.
func (s *Store) create(push xfer.Push) (*arrival, error) {
	file, err := postoffice.CreateIn(s.messages, messagePrefix)
	if err != nil {
		return nil, err
	}
	a := &arrival{push: push, message: file, token: strings.TrimPrefix(filepath.Base(file.Name()), messagePrefix)}
	s.mu.Lock()
	s.active[a.token] = true
	s.mu.Unlock()
	return a, nil
}

// release ends the work on a message. Its files are gone, or they are recorded.
func (s *Store) release(a *arrival) {
	_ = a.message.Close()
	s.mu.Lock()
	delete(s.active, a.token)
	s.mu.Unlock()
}

// discard removes the files of a message that is not taken.
func (s *Store) discard(a *arrival) {
	_ = postoffice.RemovePath(a.message.Name())
	if a.staged != "" {
		_ = postoffice.RemovePath(a.staged)
	}
}

// complete gives the message file its time, owner and mode when it is written.
func (s *Store) complete(a *arrival) error {
	err := a.message.Chmod(a.push.Mode&0o660 | 0o440)
	if err == nil && s.root {
		err = a.message.Chown(int(a.push.Owner), s.group)
	}
	if err == nil {
		err = a.message.SetTime(time.Unix(0, a.push.ModifiedAt))
	}
	return err
}

// take takes a batch and sets the reply of each message. Only the committer calls it.
func (s *Store) take(batch []*arrival) {
	if s.broken {
		if err := s.recover(); err != nil {
			s.fail(batch, err)
			return
		}
	}
	claimed := make(map[string]bool)
	var now []*arrival
	for i, a := range batch {
		if s.collides(a, claimed) {
			// Its recipients are in this batch already: the outcome of that push is
			// to be known first.
			s.commit(now)
			s.take(batch[i:])
			return
		}
		if s.prepare(a) {
			now = append(now, a)
		}
	}
	s.commit(now)
}

// collides claims the origins of a message, and reports whether one was claimed before.
func (s *Store) collides(a *arrival, claimed map[string]bool) bool {
	var ids []string
	for i := range a.control.Recipients {
		from, err := ctlfile.ParseOrigin(a.control.Recipients[i].Origin)
		if err == nil {
			ids = append(ids, from.ID())
		}
	}
	for _, id := range ids {
		if claimed[id] {
			return true
		}
	}
	for _, id := range ids {
		claimed[id] = true
	}
	return false
}

// fail answers messages whose fate is not known yet, or that were not taken: the sender
// tries again.
func (s *Store) fail(batch []*arrival, err error) {
	for _, a := range batch {
		a.reply = xfer.Reply{Code: xfer.Later, Tag: a.push.Tag, Text: err.Error()}
	}
}

// prepare writes the control file of a message. It returns false if the message has
// its reply already.
func (s *Store) prepare(a *arrival) bool {
	a.reply = xfer.Reply{Code: xfer.Accepted, Tag: a.push.Tag, Text: "ok"}
	chosen, err := s.choose(a)
	if err == nil && len(chosen) > 0 {
		err = s.writeControl(a, chosen)
	}
	switch {
	case errors.Is(err, errPush):
		a.reply.Code, a.reply.Text = xfer.Refused, err.Error()
	case err != nil:
		a.reply.Code, a.reply.Text = xfer.Later, err.Error()
	case len(chosen) > 0:
		return true
	}
	s.discard(a)
	return false
}

// errPush says that a message cannot be taken as it is.
var errPush = errors.New("the control file is not one of channel xfer")

// choose returns the recipients that are taken now: those that were not taken before
// and are allowed.
func (s *Store) choose(a *arrival) (chosen []int, err error) {
	for i := range a.control.Recipients {
		r := &a.control.Recipients[i]
		from, err := ctlfile.ParseOrigin(r.Origin)
		if err != nil || from.Channel == "" {
			return nil, fmt.Errorf("%w: recipient at %d: %v", errPush, r.Offset, err)
		}
		if before, taken := s.origins.taken[from.ID()]; taken {
			if err := s.stuck[before.token]; err != nil {
				return nil, fmt.Errorf("taken before, but not in the queue yet: %w", err)
			}
			continue
		}
		if !s.options.Programs && isProgram(r.User) {
			a.reply.Refused = append(a.reply.Refused, r.Offset)
			a.reply.Text = "programs, files and lists of users are not accepted"
			continue
		}
		a.origins = append(a.origins, from)
		chosen = append(chosen, i)
	}
	return chosen, nil
}

// isProgram reports whether a user is a program, a file or a list.
func isProgram(user string) bool {
	user = strings.TrimLeft(user, `"\ <`)
	return strings.HasPrefix(user, "|") || strings.HasPrefix(user, "/") || strings.HasPrefix(strings.ToLower(user), ":include:")
}

// writeControl writes the control file of the chosen recipients, for the channels and
// hosts that they had before the move.
func (s *Store) writeControl(a *arrival, chosen []int) error {
	info, err := a.message.Stat()
	if err != nil {
		return err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	c := a.control.Extract(chosen)
	c.Name, c.HostLists = strconv.FormatUint(inode, 10), true
	if c.Body > info.Size() {
		return fmt.Errorf("%w: the body begins at %d in a message of %d bytes", errPush, c.Body, info.Size())
	}
	next, prefix := 0, queuedPrefix
	for i := range c.Blocks {
		for _, e := range c.Blocks[i].Envelopes {
			for j := range e.Recipients {
				r, from := &e.Recipients[j], a.origins[next]
				next++
				r.Channel, r.Host, r.Class = from.Channel, from.Host, from.Class
				if from.Held {
					a.dir, prefix = "hold/", heldPrefix
				}
				from.Channel = ""
				r.Origin = from.String()
			}
		}
	}
	text, err := c.Encode()
	if err != nil {
		return fmt.Errorf("%w: %v", errPush, err)
	}
	a.name, a.staged = c.Name, filepath.Join(s.controls, prefix+a.token)
	for _, name := range []string{"transport/", "queue/"} {
		path := filepath.Join(s.options.Postoffice, a.dir, name, s.below(a))
		if postoffice.Exists(postoffice.WorkingDir, path) {
			// A power cut has left the file of an earlier message with this inode.
			a.staged = ""
			return fmt.Errorf("%q exists", path)
		}
	}
	return s.writeStaged(a.staged, text)
}

func (s *Store) writeStaged(path string, text []byte) error {
	file, err := postoffice.OpenFile(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil && s.root {
		err = file.Chown(-1, s.group)
	}
	if err == nil {
		err = file.Chmod(0o660)
	}
	if e := file.Close(); err == nil {
		err = e
	}
	return err
}

// commit does the steps from 2 on.
func (s *Store) commit(batch []*arrival) {
	if len(batch) == 0 {
		return
	}
	if err := s.sync(batch, []string{s.controls, s.messages}); err != nil {
		s.fail(batch, err)
		for _, a := range batch {
			s.discard(a)
		}
		return
	}
	err := s.origins.add(batch)
	for _, publish := range []func(*arrival) (string, error){s.publishMessage, s.publishControl} {
		if err == nil {
			err = s.publish(batch, publish)
		}
	}
	if err != nil {
		s.broken = true
		s.fail(batch, err)
		return
	}
	if s.options.Notify != "" {
		for _, a := range batch {
			if a.dir == "" {
				// An error does not matter: the scheduler watches transport/.
				_ = ctlfile.Announce(s.options.Notify, s.below(a))
			}
		}
	}
}

// publish does one step for each message, and syncs the directories.
func (s *Store) publish(batch []*arrival, step func(*arrival) (string, error)) error {
	dirs := make(map[string]bool)
	for _, a := range batch {
		dir, err := step(a)
		if err != nil {
			return err
		}
		dirs[dir] = true
	}
	var list []string
	for dir := range dirs {
		list = append(list, dir)
	}
	return s.sync(nil, list)
}

// below returns the path of a message below transport/ or queue/.
func (s *Store) below(a *arrival) string {
	id, _ := ctlfile.Number(a.name)
	return ctlfile.HashDir(id, s.options.HashLevels) + a.name
}

// publishMessage moves the message file into queue/ and returns the directory. It may be
// there already, if a crash came between this step and the next.
func (s *Store) publishMessage(a *arrival) (dir string, err error) {
	dir, err = s.obtainDir(a.dir+"queue", a)
	if err != nil {
		return "", err
	}
	staged := filepath.Join(s.messages, messagePrefix+a.token)
	if !postoffice.Exists(postoffice.WorkingDir, staged) {
		return dir, nil
	}
	return dir, postoffice.Publish(staged, filepath.Join(dir, a.name))
}

// publishControl moves the control file into transport/ and returns the directory.
func (s *Store) publishControl(a *arrival) (dir string, err error) {
	dir, err = s.obtainDir(a.dir+"transport", a)
	if err != nil {
		return "", err
	}
	return dir, postoffice.Publish(a.staged, filepath.Join(dir, a.name))
}

// obtainDir returns the hash directory of a message below transport/, queue/ or those of
// hold/, and makes it if it is missing.
func (s *Store) obtainDir(name string, a *arrival) (string, error) {
	prefix, _ := filepath.Split(s.below(a))
	top := filepath.Join(s.options.Postoffice, name)
	dir := filepath.Join(top, prefix)
	if s.made[dir] {
		return dir, nil
	}
	mode := uint32(postoffice.HashDirMode)
	if a.dir != "" {
		mode = heldMode
		for _, part := range []string{filepath.Dir(top), top} {
			if err := postoffice.MakeDir(postoffice.WorkingDir, part, mode); err != nil {
				return "", fmt.Errorf("making %q: %w", part, err)
			}
		}
	}
	fd, err := postoffice.OpenDir(postoffice.WorkingDir, top)
	if err == nil {
		err = postoffice.MakeHashDirs(fd, prefix, mode)
		postoffice.Close(fd)
	}
	if err != nil {
		return "", fmt.Errorf("making %q: %w", dir, err)
	}
	s.made[dir] = true
	return dir, nil
}

// heldMode is the mode of the directories in hold/.
const heldMode = 0o750

// syncAllFrom is the number of files from which one sync of the file system costs less
// than a sync of each.
const syncAllFrom = 5

// sync makes the files of messages and the names in directories durable.
func (s *Store) sync(batch []*arrival, dirs []string) error {
	if 2*len(batch)+len(dirs) >= syncAllFrom {
		for _, root := range s.roots {
			if err := root.SyncAll(); err != nil {
				return err
			}
		}
		return nil
	}
	for _, a := range batch {
		if err := a.message.Sync(); err != nil {
			return err
		}
		control, err := postoffice.OpenFile(a.staged, unix.O_RDONLY)
		if err != nil {
			return err
		}
		err = control.Sync()
		if e := control.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := syncdir.Sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// read reads a message from a connection into its file.
func (s *Store) read(a *arrival, from io.Reader) error {
	n, err := io.CopyN(a.message, from, a.push.Message)
	if err == nil && n < a.push.Message {
		err = io.ErrUnexpectedEOF
	}
	return err
}
