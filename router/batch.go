package router

// A batch: submissions are opened, routed and queued together, and the result of each
// is logged and announced.

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/queue"
)

const (
	// batchLimit bounds the submissions of one batch; each is an open file.
	batchLimit = 200
	// batchBytes bounds the memory for the control files of a batch.
	batchBytes = 32 << 20
	// blockBytes is what a file takes at least.
	blockBytes = 4096
	// batchRecipients bounds the work for a batch, so that one that has come meanwhile
	// does not wait long. The last submission may have more.
	batchRecipients = 10000
	// batchTime bounds how long submissions are taken for a batch: to move a bad one aside may
	// take tens of milliseconds.
	batchTime = time.Second / 2
	// unreadableCost is as how many recipients a submission counts that cannot be read: it is moved and
	// the directories are synced.
	unreadableCost = 1000
	// bytesPerRecipient is how many bytes of envelope and header count as a recipient.
	bytesPerRecipient = 2000
	// otherFiles is how many files the router has open besides those of a batch.
	otherFiles = 50
)

// batchFiles is how many submissions a batch may have with this process's limit on open files.
func batchFiles() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return batchLimit
	}
	return int(min(batchLimit, max(limit.Cur, otherFiles+1)-otherFiles))
}

// batch routes some of the submissions that wait.
func (r *Service) batch() {
	if r.endIfReplaced(r.queue.claim.Check()) {
		return
	}
	r.refresh(false)
	jobs := r.take()
	startedAt := time.Now()
	r.queue.commit(jobs)
	for _, j := range jobs {
		_ = j.File.Close()
		r.finish(j, startedAt)
	}
}

// take takes the first submissions that wait for a batch, and opens and routes them. One that
// fails counts too: to move it aside takes as long as to queue it. The scheduler takes in mail more
// slowly than the router makes it, so users whom the router does not trust have a limit.
func (r *Service) take() (jobs []*job) {
	size, recipients, startedAt := 0, 0, time.Now()
	for range batchFiles() {
		if size >= batchBytes || recipients >= batchRecipients || time.Since(startedAt) >= batchTime {
			break
		}
		name, ok := r.waiting.next()
		if !ok {
			break
		}
		j, err := r.open(name)
		if err == nil && slices.ContainsFunc(jobs, func(other *job) bool { return other.Number == j.Number }) {
			// A sweep has found a file of this batch, or its owner has renamed it meanwhile. Two jobs
			// with one file would lose it.
			_ = j.File.Close()
			continue
		}
		if err == nil && j.Sender != "" {
			// There may be less room than the last notices need.
			if err = postoffice.ForQueueing.Plus(int64(size), len(jobs)).Check(r.queue.dir); err != nil {
				_ = j.File.Close()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			delete(r.failed, name)
		} else if err != nil {
			r.fail(name, err)
			if errors.As(err, new(Unreadable)) && j != nil {
				r.spend(j.UID, unreadableCost)
			}
		} else {
			jobs = append(jobs, j)
			size += blockBytes + len(j.Routed.Contents.Blocks[0].Header) + 200*j.Recipients
			recipients += j.Recipients
			r.spend(j.UID, j.Cost)
		}
	}
	return jobs
}

// spend counts recipients of the owner of a file: another user's file may have taken the name.
func (r *Service) spend(owner, recipients int) {
	uid, limit := process.UserOf(owner), r.machine.MaxUserRecipients
	if !r.waiting.spend(uid, recipients, limit, time.Now()) {
		r.log.Warn().Int("uid", uid).Int("limit", limit).
			Msg("this user has sent to too many recipients in a minute, or as much work; the rest waits until it is over")
	}
}

// open opens and routes a submission. The error is fs.ErrNotExist if the file does not exist
// any more, or is no submission. After any error the file is closed; the job has its owner, or is nil.
func (r *Service) open(name string) (*job, error) {
	j, err := r.queue.open(name)
	if err != nil {
		return j, err
	}
	if j.Routed, err = r.machine.Route(&j.Submission, r.loader.Table()); err != nil {
		_ = j.File.Close()
	}
	return j, err
}

// fail handles a submission that was not queued: one that cannot be read is
// quarantined, and any other is tried again with the next sweep.
func (r *Service) fail(name string, err error) {
	if r.endIfReplaced(err) {
		return
	}
	r.count(func(c *Counts) { c.Failures++ })
	var bad Unreadable
	if errors.As(err, &bad) {
		moved := r.queue.quarantine(filepath.Join(r.queue.dir, "router", name), filepath.Base(name), err.Error())
		if moved == nil {
			r.log.Error().Str("file", name).Err(err).Msg("submission moved to corrupt/router")
			delete(r.failed, name)
			return
		}
		err = errors.Join(err, moved)
	}
	if r.failed[name] || postoffice.IsNoRoom(err) && !r.full.Allow("", time.Now()) {
		return
	}
	if len(r.failed) > 100000 {
		clear(r.failed)
	}
	r.failed[name] = true
	// A user can make as many that fail as he likes, so only some of the lines of a second
	// are written.
	if unlogged, ok := r.failures.Take("not routed", time.Now()); ok {
		line := r.log.Error().Str("file", name).Err(err)
		if unlogged > 0 {
			line = line.Int("unlogged", unlogged)
		}
		line.Msg("submission not routed; it is tried again")
	}
}

// finish logs and announces the result of a job.
func (r *Service) finish(j *job, startedAt time.Time) {
	if j.Err != nil && j.Moved {
		r.log.Error().Str("file", j.Name).Err(j.Err).Msg("message not queued yet; recovery will complete it")
		return
	}
	if j.Err != nil {
		r.fail(j.Name, j.Err)
		return
	}
	delete(r.failed, j.Name)
	r.count(func(c *Counts) {
		c.Routed++
		c.Recipients += j.Recipients
		if j.Refused != "" {
			c.Refused++
		}
	})
	r.announce(j.Path)
	now := time.Now()
	if j.Refused != "" {
		r.log.Warn().Str("spoolid", j.ID).Str("from", j.Sender).Int("recipients", j.Recipients).Int64("size", j.Size).
			Str("form", j.Refused).Msg("submission refused; its sender gets a notice")
	}
	r.log.Debug().Str("spoolid", j.ID).Str("from", j.Sender).Int("recipients", j.Recipients).Msg("routed")
	r.syslog.Info(fmt.Sprintf("%s: from=%s, rrelay=%s, size=%d, nrcpts=%d, msgid=%s, delay=%s, xdelay=%s",
		j.ID, j.Sender, j.From, j.Size, j.Recipients, j.MessageID,
		clock(now.Sub(j.ModifiedAt)), clock(now.Sub(startedAt))))
}

// announce tells the scheduler of a control file. An error does not matter: the
// scheduler watches transport/.
func (r *Service) announce(path string) {
	if r.notify != "" {
		_ = queue.Announce(r.notify, path)
	}
}

// clock writes a span as HH:MM:SS.
func clock(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
