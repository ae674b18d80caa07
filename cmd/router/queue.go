package main

// The files: how a batch of submissions becomes messages in the queue, in few
// waits for the disk.
//
//	router/N                     a submission
//	transport/.router/N          its control file, staged
//	transport/.router/N+M        a control file for another sender, and
//	transport/.router/M.msg      the copy of the message for it
//	queue/F/F/N, queue/X/Y/M     the messages
//	transport/F/F/N, …/X/Y/M     the control files, which the scheduler sees
//
// A batch stages the control files and copies and syncs; moves the messages into
// queue/ and syncs; and moves the control files to their names, those of copies
// first. The move of router/N into queue/ is the step that counts: before it, a
// crash leaves a submission that is routed again, and behind it, a staged control
// file that recovery moves to its name. No step is repeated once the scheduler
// can see its result, so nothing is doubled.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/eintr"
	"zsched/internal/postoffice"
	"zsched/internal/syncdir"
)

// stagingDir is below transport/, so that a rename gets a file to its place. Its
// name is none that a scheduler looks into.
const stagingDir = ".router"

// queue is the postoffice, as the router writes it.
type queue struct {
	office string
	levels int // of hash directories
	group  int // of transport/
	root   bool
	fs     *os.File // transport/, for syncfs
	waits  int      // synchronous waits, counted for tests
	noSync bool     // tests that kill the process need no disk
	// dirs are the hash directories that are known to be there. made says that one
	// was made since the last syncfs.
	dirs map[string]bool
	made bool
	// step is called before every change of the file system. Tests stop there.
	step func(what string)
}

// job is one submission on its way.
type job struct {
	*submission
	*routed
	copies []copied
	moved  bool // the message is in queue/
	err    error
}

// copied is a copy of a message for another sender.
type copied struct {
	inode uint64
	moved bool
}

func openQueue(office string, levels int) (*queue, error) {
	q := &queue{office: office, levels: levels, root: os.Geteuid() == 0, dirs: map[string]bool{}, step: func(string) {}}
	for _, name := range []string{"router", "queue", "transport"} {
		if info, err := os.Stat(filepath.Join(office, name)); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%s is not a directory", filepath.Join(office, name))
		}
	}
	var err error
	if q.group, err = postoffice.Group(filepath.Join(office, "transport")); err != nil {
		return nil, err
	}
	if err := os.Mkdir(q.staging(""), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	info, err := os.Lstat(q.staging(""))
	if err == nil && (!info.IsDir() || info.Mode().Perm()&0o077 != 0 || ownerOf(info) != os.Geteuid()) {
		err = fmt.Errorf("%s is not a directory of this user alone", q.staging(""))
	}
	if err != nil {
		return nil, err
	}
	q.fs, err = os.Open(filepath.Join(office, "transport"))
	return q, err
}

func (q *queue) close() { _ = q.fs.Close() }

func (q *queue) staging(name string) string {
	return filepath.Join(q.office, "transport", stagingDir, name)
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// place is the path of a number below queue/ or transport/.
func (q *queue) place(dir string, n uint64) string {
	return filepath.Join(q.office, dir, ctlfile.HashDir(n, q.levels), decimal(n))
}

// path is that of a control file, as the scheduler is told it.
func (q *queue) path(n uint64) string { return ctlfile.HashDir(n, q.levels) + decimal(n) }

// open opens a file of router/. It must be a regular file with one name only: a
// user could give another name to a file of somebody else.
func (q *queue) open(name string) (*submission, error) {
	path := filepath.Join(q.office, "router", name)
	fd, err := postoffice.OpenAt(unix.AT_FDCWD, path, unix.O_RDONLY, 0)
	if err == unix.ELOOP || err == unix.ENXIO {
		return nil, unreadablef("a symbolic link or a socket")
	} else if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = unreadablef("not a regular file")
	} else if err == nil && info.Sys().(*syscall.Stat_t).Nlink != 1 {
		err = unreadablef("the file has %d names", info.Sys().(*syscall.Stat_t).Nlink)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &submission{name: name, file: file, info: info, inode: inodeOf(info), uid: ownerOf(info)}, nil
}

// commit puts jobs into the queue together. Each job's err says what became of it.
func (q *queue) commit(jobs []*job) {
	for _, j := range jobs {
		if j.err = q.stage(j); j.err != nil {
			q.unstage(j)
		}
	}
	q.syncStaged(jobs)
	for _, j := range jobs {
		if j.err == nil {
			if j.err = q.moveMessages(j); j.err != nil && !j.moved {
				q.unstage(j)
			}
		}
	}
	q.syncMoved(jobs)
	copies := false
	for _, j := range jobs {
		for _, c := range j.copies {
			if j.err == nil {
				copies = true
				j.err = q.publish(decimal(j.inode)+"+"+decimal(c.inode), c.inode)
			}
		}
	}
	if copies {
		// Recovery takes a copy for uncommitted when its original is gone, so their
		// control files must be there before the scheduler can finish the original.
		q.failAll(jobs, q.syncfs())
	}
	for _, j := range jobs {
		if j.err == nil {
			j.err = q.publish(decimal(j.inode), j.inode)
		}
	}
}

// failAll sets the error of all jobs that have none.
func (q *queue) failAll(jobs []*job, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
	}
}

// stage writes what a job needs into the staging directory.
func (q *queue) stage(j *job) error {
	if mode, was := os.FileMode(j.info.Mode().Perm()|0o440)&0o660, j.info.Mode().Perm(); q.root || mode != was && j.uid == os.Geteuid() {
		if err := q.share(j.file, mode); err != nil {
			return err
		}
	}
	for i, c := range j.contents {
		number, name := j.inode, decimal(j.inode)
		if i > 0 {
			inode, err := q.copyMessage(j)
			if err != nil {
				return err
			}
			j.copies = append(j.copies, copied{inode: inode})
			number, name = inode, name+"+"+decimal(inode)
		}
		if err := q.prepare(number); err != nil {
			return err
		}
		c.Name = decimal(number)
		text, err := c.Encode()
		if err != nil {
			return unreadable{err}
		}
		if err := q.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the hash directories of a number before the sync of what is
// staged, which makes them durable as well.
func (q *queue) prepare(n uint64) error {
	if q.levels == 0 {
		return nil
	}
	for _, name := range []string{"queue", "transport"} {
		dir := filepath.Dir(q.place(name, n))
		if q.dirs[dir] {
			continue
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			q.step("make " + dir)
			q.made = true
			if err := makeHashDir(dir, q.levels); err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		q.dirs[dir] = true
	}
	return nil
}

// share lets agents read or write a file by the group of transport/.
func (q *queue) share(file *os.File, mode os.FileMode) error {
	if q.root {
		if err := file.Chown(-1, q.group); err != nil {
			return err
		}
	}
	return file.Chmod(mode)
}

// write writes a control file into the staging directory. An old one of that name
// is what a job before left that could not be ended.
func (q *queue) write(name string, text []byte) error {
	q.step("write " + name)
	path := q.staging(name)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, q.share(file, 0o660), file.Close())
}

// copyMessage copies a job's message into the staging directory and returns the
// inode of the copy. It belongs to the owner of the submission.
func (q *queue) copyMessage(j *job) (uint64, error) {
	q.step("copy " + decimal(j.inode))
	file, err := os.CreateTemp(q.staging(""), "new-*")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil {
		_, err = io.Copy(file, io.NewSectionReader(j.file, 0, 1<<62))
	}
	if err == nil && q.root {
		err = file.Chown(j.uid, q.group)
	}
	if err == nil {
		err = file.Chmod(0o640)
	}
	if err == nil {
		// The age of the message is that of the submission.
		err = os.Chtimes(file.Name(), time.Time{}, j.info.ModTime())
	}
	if err == nil {
		err = os.Rename(file.Name(), q.staging(decimal(inodeOf(info))+".msg"))
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return 0, err
	}
	return inodeOf(info), nil
}

// unstage removes what stage wrote.
func (q *queue) unstage(j *job) {
	_ = os.Remove(q.staging(decimal(j.inode)))
	for _, c := range j.copies {
		_ = os.Remove(q.staging(decimal(j.inode) + "+" + decimal(c.inode)))
		_ = os.Remove(q.staging(decimal(c.inode) + ".msg"))
	}
}

// few is how many jobs are synced file by file. Above it, one syncfs is cheaper.
const few = 2

// syncStaged makes what was staged durable. After an error no job goes on.
func (q *queue) syncStaged(jobs []*job) {
	q.step("sync staged")
	live, copies := 0, false
	for _, j := range jobs {
		if j.err == nil {
			live++
			copies = copies || len(j.copies) > 0
		}
	}
	if live == 0 {
		return
	}
	var err error
	if live > few || copies || q.made {
		err = q.syncfs()
	} else {
		for _, j := range jobs {
			if j.err == nil {
				err = errors.Join(err, q.syncPath(q.staging(decimal(j.inode))))
			}
		}
		err = errors.Join(err, q.syncPath(q.staging("")))
	}
	if err != nil {
		for _, j := range jobs {
			if j.err == nil {
				j.err = err
				q.unstage(j)
			}
		}
	}
}

func (q *queue) syncfs() error {
	q.waits++
	if !q.noSync {
		if err := eintr.Retry(func() error { return unix.Syncfs(int(q.fs.Fd())) }); err != nil {
			return fmt.Errorf("sync the file system of %s: %w", q.fs.Name(), err)
		}
	}
	q.made = false
	return nil
}

// syncPath syncs a file or a directory.
func (q *queue) syncPath(path string) error {
	q.waits++
	if q.noSync {
		return nil
	}
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		return syncdir.Sync(path)
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// moveMessages moves a job's message into queue/, and then its copies.
func (q *queue) moveMessages(j *job) error {
	from, to := filepath.Join(q.office, "router", j.name), q.place("queue", j.inode)
	q.step("move message " + decimal(j.inode))
	if err := q.move(from, to); err != nil {
		return err
	}
	if now, err := os.Lstat(to); err != nil || inodeOf(now) != j.inode {
		// Its owner gave the name to another file in between.
		return errors.Join(errors.New("the file was replaced by another"), err, q.move(to, from))
	}
	j.moved = true
	for i := range j.copies {
		c := &j.copies[i]
		q.step("move copy " + decimal(c.inode))
		if err := q.move(q.staging(decimal(c.inode)+".msg"), q.place("queue", c.inode)); err != nil {
			return err
		}
	}
	return nil
}

// syncMoved makes the names in queue/ durable. After an error the jobs are left to
// recovery.
func (q *queue) syncMoved(jobs []*job) {
	q.step("sync moved")
	dirs := map[string]bool{}
	for _, j := range jobs {
		if j.moved {
			dirs[filepath.Dir(q.place("queue", j.inode))] = true
			for _, c := range j.copies {
				dirs[filepath.Dir(q.place("queue", c.inode))] = true
			}
		}
	}
	if len(dirs) > few {
		q.failAll(jobs, q.syncfs())
		return
	}
	for dir := range dirs {
		q.failAll(jobs, q.syncPath(dir))
	}
}

// publish moves a staged control file to its name.
func (q *queue) publish(staged string, number uint64) error {
	q.step("publish " + staged)
	return q.move(q.staging(staged), q.place("transport", number))
}

// move renames a file, makes the hash directory if it is missing, and overwrites
// nothing.
func (q *queue) move(from, to string) error {
	err := rename(from, to)
	if errors.Is(err, fs.ErrNotExist) && q.levels > 0 {
		if _, e := os.Lstat(from); e != nil {
			return err
		}
		if e := makeHashDir(filepath.Dir(to), q.levels); e != nil {
			return e
		}
		// The directory itself has to last as well. It was there a moment ago, or
		// recovery needs it.
		if e := q.syncfs(); e != nil {
			return e
		}
		err = rename(from, to)
	}
	return err
}

func rename(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // this file system has no such call
		if err := os.Link(from, to); err != nil {
			return err
		}
		return os.Remove(from)
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// makeHashDir makes a directory of letters and those above it, levels in all.
func makeHashDir(dir string, levels int) error {
	if levels == 0 {
		return nil
	}
	if err := makeHashDir(filepath.Dir(dir), levels-1); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(dir, 0o755|fs.ModeSetgid)
	}
	return err
}

// staged is what the staging directory has of one submission.
type staged struct {
	original bool // there is its own control file
	copies   []uint64
}

// recover ends what a router before this one began, and what a failure of the file
// system kept this one from ending. It returns the control files that it has
// moved to their names.
func (q *queue) recover() (paths []string, err error) {
	entries, err := os.ReadDir(q.staging(""))
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	found := map[uint64]*staged{}
	belongs := map[string]bool{} // copies that a control file is for
	for _, e := range entries {
		first, second, isCopy := strings.Cut(e.Name(), "+")
		n, err := strconv.ParseUint(first, 10, 64)
		if err != nil {
			continue
		}
		if found[n] == nil {
			found[n] = new(staged)
		}
		if !isCopy {
			found[n].original = true
		} else if m, err := strconv.ParseUint(second, 10, 64); err == nil {
			found[n].copies = append(found[n].copies, m)
			belongs[second+".msg"] = true
		}
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "new-") || strings.HasSuffix(name, ".msg") && !belongs[name] {
			err = errors.Join(err, os.Remove(q.staging(name)))
		}
	}
	for n, s := range found {
		done, e := q.resume(n, s)
		paths, err = append(paths, done...), errors.Join(err, e)
	}
	return paths, err
}

// resume ends one submission: its control files go to their names if the message
// is in queue/, else they are removed, because the submission is routed again.
func (q *queue) resume(n uint64, s *staged) (paths []string, err error) {
	if !q.isQueued(n) {
		return nil, q.undo(n, s)
	}
	for _, m := range s.copies {
		message := q.staging(decimal(m) + ".msg")
		if _, e := os.Lstat(message); e == nil {
			q.step("resume copy " + decimal(m))
			if e := q.move(message, q.place("queue", m)); e != nil {
				return paths, e
			}
		}
	}
	if err := q.syncfs(); err != nil {
		return paths, err
	}
	for _, m := range s.copies {
		if err := q.publish(decimal(n)+"+"+decimal(m), m); err != nil {
			return paths, err
		}
		paths = append(paths, q.path(m))
	}
	if !s.original {
		return paths, nil
	}
	if len(s.copies) > 0 {
		if err := q.syncfs(); err != nil {
			return paths, err
		}
	}
	return append(paths, q.path(n)), q.publish(decimal(n), n)
}

// isQueued reports whether the message file with an inode is in queue/ under that
// number. It is brought to the hash directory that is configured now.
func (q *queue) isQueued(n uint64) bool {
	for levels := range 3 {
		path := filepath.Join(q.office, "queue", ctlfile.HashDir(n, levels), decimal(n))
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && inodeOf(info) == n {
			return levels == q.levels || q.move(path, q.place("queue", n)) == nil
		}
	}
	return false
}

// undo removes what was staged for a submission that is still in router/. If it is
// not there, its control file may be all that is left of the mail: it is put aside.
func (q *queue) undo(n uint64, s *staged) error {
	var err error
	for _, m := range s.copies {
		q.step("undo copy " + decimal(m))
		if info, e := os.Lstat(q.place("queue", m)); e == nil && inodeOf(info) == m {
			err = errors.Join(err, os.Remove(q.place("queue", m)))
		}
		err = errors.Join(err, removeIfThere(q.staging(decimal(m)+".msg")), removeIfThere(q.staging(decimal(n)+"+"+decimal(m))))
	}
	if !s.original {
		return err
	}
	if !q.inRouter(n) {
		return errors.Join(err, q.aside(q.staging(decimal(n)), decimal(n)+".control",
			"its message is neither in router/ nor in queue/"))
	}
	q.step("undo " + decimal(n))
	return errors.Join(err, removeIfThere(q.staging(decimal(n))))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// inRouter reports whether a file in router/ has an inode.
func (q *queue) inRouter(n uint64) bool {
	for _, name := range q.names() {
		if info, err := os.Lstat(filepath.Join(q.office, "router", name)); err == nil && inodeOf(info) == n {
			return true
		}
	}
	return false
}

// names lists the submissions in router/ and its letter directories.
func (q *queue) names() []string {
	var names []string
	top, _ := os.ReadDir(filepath.Join(q.office, "router"))
	for _, e := range top {
		if isSubmission(e.Name()) {
			names = append(names, e.Name())
		} else if e.IsDir() && isLetter(e.Name()) {
			below, _ := os.ReadDir(filepath.Join(q.office, "router", e.Name()))
			for _, b := range below {
				if isSubmission(b.Name()) {
					names = append(names, e.Name()+"/"+b.Name())
				}
			}
		}
	}
	return names
}

// isSubmission reports whether a base name is one under which a program leaves a
// complete submission.
func isSubmission(base string) bool { return base != "" && '0' <= base[0] && base[0] <= '9' }

func isLetter(base string) bool { return len(base) == 1 && 'A' <= base[0] && base[0] <= 'Z' }

// aside moves a file to corrupt/router/, with the reason beside it. What is there
// already stays.
func (q *queue) aside(path, name, reason string) error {
	dir := filepath.Join(q.office, "corrupt", "router")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for try := range 1000 {
		to := filepath.Join(dir, name)
		if try > 0 {
			to += "." + strconv.Itoa(try)
		}
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		q.step("reason " + name)
		text := fmt.Sprintf("%s, %s\n%s\n", path, time.Now().UTC().Format(time.RFC3339), reason)
		if err := os.WriteFile(to+".reason", []byte(text), 0o640); err != nil {
			return err
		}
		q.step("aside " + name)
		if err := rename(path, to); err != nil {
			_ = os.Remove(to + ".reason")
			if errors.Is(err, fs.ErrExist) {
				continue
			}
			return err
		}
		return q.syncPath(dir)
	}
	return fmt.Errorf("put %s aside: %w", path, fs.ErrExist)
}
