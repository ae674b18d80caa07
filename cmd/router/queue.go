package main

// Batches: how submissions become messages in the queue, with few waits for the
// disk.
//
//	router/N                     a submission
//	transport/.router/N          its control file, staged
//	transport/.router/N+M        a control file for another sender, and
//	transport/.router/M.msg      the copy of the message for it
//	queue/F/F/N, queue/X/Y/M     the messages
//	transport/F/F/N, …/X/Y/M     the control files, which the scheduler sees
//
// A batch stages the control files and the copies, and syncs them; moves the messages
// into queue/; and moves the control files to their names, those of copies first. The
// move of router/N into queue/ is the commit point: a crash before it leaves a submission
// that is routed again, and a crash after it leaves a staged control file that recovery
// moves to its name. No step is repeated once the scheduler can see its result, so a crash of the
// router duplicates no message.
//
// The moves themselves are not synced, which saves half of the waits. A power cut may
// undo the moves of the last seconds, as it undoes the tags and the removals of mail that
// was delivered then: the submission is on disk in router/, and is routed again.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/process"
)

// stagingDir is below transport/, so that a rename can move a file to its name there.
// A scheduler does not look into a directory of that name.
const stagingDir = ".router"

// queueDirs are the directories of the postoffice in which the router works.
var queueDirs = [...]string{"router", "queue", "transport"}

// committer writes into the postoffice.
type committer struct {
	office string
	levels int // of hash directories
	group  int // of transport/
	root   bool
	fs     *postoffice.File // transport/, for syncfs
	waits  int              // synchronous waits, counted for tests
	noSync bool             // tests that kill the process need no disk
	dirs   map[string]bool  // hash directories that are known to exist
	claim  *process.Claim   // nil in tests within one process
	// aside counts the files in corrupt/router/ by their owners, as at asideAt.
	aside   map[int]int
	asideAt time.Time
	// step is called before every change of the file system. Tests interrupt the
	// router there.
	step func(what string)
}

// job is one submission in a batch.
type job struct {
	*submission
	*routed
	copies []uint64 // inodes of copies of the message for other senders
	moved  bool     // the message is in queue/
	err    error
}

func openQueue(office string, levels int) (*committer, error) {
	q := &committer{office: office, levels: levels, root: os.Geteuid() == 0, dirs: map[string]bool{}, step: func(string) {}}
	for _, name := range queueDirs {
		dir, err := postoffice.OpenDirFile(filepath.Join(office, name))
		if err != nil {
			return nil, err
		}
		_ = dir.Close()
	}
	var err error
	if q.group, err = postoffice.Group(filepath.Join(office, "transport")); err != nil {
		return nil, err
	}
	if err := q.makeStaging(); err != nil {
		return nil, err
	}
	q.fs, err = postoffice.OpenDirFile(filepath.Join(office, "transport"))
	return q, err
}

// makeStaging makes the staging directory if it is not there: at the start, and when
// somebody has removed it.
func (q *committer) makeStaging() error {
	if err := q.claim.Check(); err != nil {
		return err
	}
	dir := q.staging("")
	info, err := postoffice.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = postoffice.MakeDir(postoffice.WorkingDir, dir, 0o700); err == nil {
			info, err = postoffice.Lstat(dir)
		}
	}
	if err == nil && (!info.IsDir() || info.Mode().Perm()&0o077 != 0 || ownerOf(info) != os.Geteuid()) {
		err = fmt.Errorf("%s is not a directory of this user alone", dir)
	}
	return err
}

func (q *committer) close() { _ = q.fs.Close() }

func (q *committer) staging(name string) string {
	return filepath.Join(q.office, "transport", stagingDir, name)
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// place returns the path of the file with a number below queue/ or transport/.
func (q *committer) place(dir string, n uint64) string {
	return filepath.Join(q.office, dir, ctlfile.HashDir(n, q.levels), decimal(n))
}

// path returns the path of a control file below transport/, as the scheduler is told
// it.
func (q *committer) path(n uint64) string { return ctlfile.HashDir(n, q.levels) + decimal(n) }

// commit puts jobs into the queue together. Each job's err says what became of it.
func (q *committer) commit(jobs []*job) {
	// The scheduler gives transport/ another group when it starts with agents that are
	// not root.
	if info, err := q.fs.Stat(); err == nil {
		q.group = int(info.Sys().(*syscall.Stat_t).Gid)
	}
	if len(jobs) > 0 {
		q.failAll(jobs, q.makeStaging())
	}
	for _, j := range jobs {
		if j.err != nil {
			continue
		}
		if j.err = q.stage(j); j.err != nil {
			q.unstage(j)
		}
	}
	q.syncStaged(jobs)
	if err := q.claim.Check(); err != nil {
		q.failAll(jobs, err) // recovery removes what is staged
		return
	}
	for _, j := range jobs {
		if j.err == nil {
			if j.err = q.moveMessages(j); j.err != nil && !j.moved {
				q.unstage(j)
			}
		}
	}
	if slices.ContainsFunc(jobs, func(j *job) bool { return j.err == nil && len(j.copies) > 0 }) {
		// If a power cut put the submission back into router/ while the copies stayed
		// in the queue, new copies would join them.
		q.step("sync moved")
		q.failAll(jobs, q.syncfs())
	}
	copies := false
	for _, j := range jobs {
		for _, c := range j.copies {
			if j.err == nil {
				copies = true
				j.err = q.publish(decimal(j.inode)+"+"+decimal(c), c)
			}
		}
	}
	if copies {
		// When the original is gone, recovery treats a copy as not committed. So the
		// copies' control files must be durable before the scheduler can finish the
		// original.
		q.failAll(jobs, q.syncfs())
	}
	for _, j := range jobs {
		if j.err == nil {
			j.err = q.publish(decimal(j.inode), j.inode)
		}
	}
}

// failAll gives the error to all jobs that have none.
func (q *committer) failAll(jobs []*job, err error) {
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
		}
	}
}

// stage writes what a job needs into the staging directory.
func (q *committer) stage(j *job) error {
	if err := errors.Join(q.checkRoom(j), q.share(j)); err != nil {
		return err
	}
	for i, c := range j.contents {
		number, name := j.inode, decimal(j.inode)
		if i > 0 {
			inode, err := q.copyMessage(j)
			if err != nil {
				return err
			}
			j.copies = append(j.copies, inode)
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

// share lets agents read the message, through the group of transport/ if the router runs
// as root.
func (q *committer) share(j *job) error {
	mode, group := uint32(j.info.Mode().Perm()|0o440)&0o660, q.group
	if !q.root {
		if j.uid != os.Geteuid() {
			return nil
		}
		group = -1
	}
	return j.file.Share(group, mode)
}

// unstage removes what stage wrote.
func (q *committer) unstage(j *job) {
	_ = postoffice.RemovePath(q.staging(decimal(j.inode)))
	for _, c := range j.copies {
		_ = postoffice.RemovePath(q.staging(decimal(j.inode) + "+" + decimal(c)))
		_ = postoffice.RemovePath(q.staging(decimal(c) + ".msg"))
	}
}

// syncStaged makes the staged files durable. It also makes the removal of old control
// files durable: an earlier message may have had the same inode, and its control file
// must not come back after a power cut. It uses syncfs, because the staged files, the
// staging directory and transport/ would need at least three separate waits. After an
// error no job continues.
func (q *committer) syncStaged(jobs []*job) {
	q.step("sync staged")
	if !slices.ContainsFunc(jobs, func(j *job) bool { return j.err == nil }) {
		return
	}
	err := q.syncfs()
	if err == nil {
		return
	}
	for _, j := range jobs {
		if j.err == nil {
			j.err = err
			q.unstage(j)
		}
	}
}

// moveMessages moves a job's message into queue/, and then its copies.
func (q *committer) moveMessages(j *job) error {
	from, to := filepath.Join(q.office, "router", j.name), q.place("queue", j.inode)
	q.step("move message " + decimal(j.inode))
	if err := q.moveMessage(from, j.inode); err != nil {
		return err
	}
	now, err := postoffice.Lstat(to)
	if err != nil {
		j.moved = true // recovery will complete it
		return err
	}
	if inodeOf(now) != j.inode {
		// Meanwhile its owner has put another file under that name.
		return errors.Join(errors.New("the file was replaced by another"), postoffice.Publish(to, from))
	}
	j.moved = true
	for i := range j.copies {
		c := j.copies[i]
		q.step("move copy " + decimal(c))
		if err := q.moveMessage(q.staging(decimal(c)+".msg"), c); err != nil {
			return err
		}
	}
	return nil
}

// moveMessage moves a message file to its number in queue/, unless there is a
// control file of that number. A power cut can leave the control file of an earlier
// message although the message file is gone, because they were in different
// directories; then a new message may get the same inode. The old control file must
// not be used for the new message. It is also possible that the power cut has undone
// only the move of this message; then the scheduler moves the control file to corrupt/ a
// minute later, and the submission is routed after that.
func (q *committer) moveMessage(from string, n uint64) error {
	if control := q.place("transport", n); postoffice.Exists(postoffice.WorkingDir, control) {
		return &os.PathError{Op: "queue a message beside the control file of another", Path: control, Err: fs.ErrExist}
	}
	return q.move(from, "queue", n)
}

// publish moves a staged control file to its name.
func (q *committer) publish(staged string, number uint64) error {
	q.step("publish " + staged)
	return q.move(q.staging(staged), "transport", number)
}
