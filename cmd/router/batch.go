package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"zsched/router"
)

// A batch: submissions are opened, routed and queued together, and the result of each
// is logged and announced.

const (
	// batchLimit bounds the submissions of one batch; each is an open file.
	batchLimit = 200
	// batchBytes bounds the memory for the control files of a batch.
	batchBytes = 32 << 20
	// batchRecipients bounds the work for a batch. A submission that turned out to be
	// large counts as many as a small one may have, because no more of it was read.
	batchRecipients = 10000
)

// batch routes some of the submissions that wait.
func (r *service) batch() {
	if r.endIfReplaced(r.queue.claim.Check()) {
		return
	}
	if now := time.Now(); now.After(r.checkAt) {
		r.checkAt = now.Add(tableInterval)
		r.refresh(false)
	}
	names, most := r.lane()
	r.commit(r.take(names, most))
	r.strays.log(r, false)
}

// take takes the first submissions of a lane for a batch, and opens and routes them.
func (r *service) take(names *[]string, most router.Effort) (jobs []*job) {
	size, recipients, taken := 0, 0, 0
	limit := r.batchMax()
	for taken < len(*names) && len(jobs) < limit && size < batchBytes && recipients < batchRecipients {
		name := (*names)[taken]
		j, err := r.open(name, most)
		if tooManyFiles(err) && len(jobs) > 0 {
			// The work on the others needs descriptors too.
			half := len(jobs) / 2
			r.fewFiles(len(jobs), err)
			for _, j := range jobs[half:] {
				_ = j.file.Close()
				r.known[j.Name] = true
				*names = append(*names, j.Name)
			}
			jobs = jobs[:half]
			break
		}
		taken++
		if errors.Is(err, router.ErrLarge) {
			r.large = append(r.large, name)
			recipients += most.Recipients
			continue
		}
		delete(r.known, name)
		switch {
		case err != nil:
			r.fail(name, err)
		case j != nil:
			jobs = append(jobs, j)
			size += len(j.Routed.Contents.Blocks[0].Header) + 200*j.Recipients
			recipients += j.Recipients
		}
	}
	if *names = (*names)[taken:]; len(*names) == 0 {
		*names = nil
	}
	return jobs
}

// commit queues the jobs of a batch. Those for which there were too few descriptors
// wait for a smaller batch.
func (r *service) commit(jobs []*job) {
	startedAt := time.Now()
	r.queue.commit(jobs)
	few := false
	for _, j := range jobs {
		_ = j.file.Close()
		if tooManyFiles(j.Err) && !j.Moved && len(jobs) > 1 {
			r.add(j.Name)
			if !few {
				r.fewFiles(len(jobs), j.Err)
			}
			few = true
			continue
		}
		r.finish(j, startedAt)
	}
	if !few && len(jobs) > 0 && len(jobs) == r.limit { // more may be possible again
		if r.limit *= 2; r.limit >= batchLimit {
			r.limit = 0
		}
	}
}

// batchMax is how many submissions a batch may have.
func (r *service) batchMax() int { return cmp.Or(r.limit, batchLimit) }

// fewFiles halves the batches after one of this size had too few descriptors.
func (r *service) fewFiles(size int, err error) {
	if r.limit == 0 {
		r.log.Warn().Err(err).Msg("too few file descriptors for a batch; batches are smaller")
	}
	r.limit = max(1, size/2)
}

// tooManyFiles reports whether an error is the limit on open files.
func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// open opens and routes a submission, with no more effort than that. It returns nil if
// the file does not exist any more.
func (r *service) open(name string, most router.Effort) (*job, error) {
	in, err := r.queue.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(r.retries, name)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	routed, err := r.machine.Route(&in.Submission, r.loader.Table(), most)
	if err != nil {
		_ = in.file.Close()
		return nil, err
	}
	return &job{submission: in, Routed: routed}, nil
}

// fail handles a submission that was not queued: one that cannot be read is
// quarantined, and any other is tried again.
func (r *service) fail(name string, err error) {
	if r.endIfReplaced(err) || r.refuse(name, err) {
		return
	}
	var bad router.Unreadable
	if errors.As(err, &bad) {
		path := filepath.Join(r.queue.dir, "router", name)
		if moved := r.queue.quarantine(path, filepath.Base(name), err.Error()); moved == nil {
			r.log.Error().Str("file", name).Err(err).Msg("submission moved to corrupt/router")
			delete(r.retries, name)
			return
		} else {
			err = errors.Join(err, moved)
		}
	}
	before, again := r.retries[name]
	if !again {
		r.logFailure(name, err)
	}
	r.retryLater(name, min(max(2*before.pause, firstRetry), lastRetry))
}

// logFailure logs that a submission failed for the first time. A user can make as many that
// fail as he likes, so only some of the lines of a second are written.
func (r *service) logFailure(name string, err error) {
	unlogged, ok := r.failures.Take("not routed", time.Now())
	if !ok {
		return
	}
	line := r.log.Error().Str("file", name).Err(err)
	if unlogged > 0 {
		line = line.Int("unlogged", unlogged)
	}
	line.Msg("submission not routed; it is tried again")
}

// retryLater tries a submission again after a pause.
func (r *service) retryLater(name string, pause time.Duration) {
	if len(r.retries) > 100000 {
		clear(r.retries)
	}
	r.retries[name] = retry{time.Now().Add(pause), pause}
	r.wakeAt(r.retries[name].at)
}

// finish logs and announces the result of a job.
func (r *service) finish(j *job, startedAt time.Time) {
	if j.Err != nil {
		if j.Moved {
			r.log.Error().Str("file", j.Name).Err(j.Err).Msg("message not queued yet; recovery will complete it")
			return
		}
		r.fail(j.Name, j.Err)
		return
	}
	delete(r.retries, j.Name)
	r.announce(j.Path)
	now := time.Now()
	if j.Refused != "" {
		r.log.Warn().Str("spoolid", j.ID).Str("from", j.Sender).Int("recipients", j.Recipients).Int64("size", j.info.Size()).
			Str("form", j.Refused).Msg("submission refused; its sender gets a notice")
	}
	r.log.Debug().Str("spoolid", j.ID).Str("from", j.Sender).Int("recipients", j.Recipients).Msg("routed")
	r.syslog.Info(fmt.Sprintf("%s: from=%s, rrelay=%s, size=%d, nrcpts=%d, msgid=%s, delay=%s, xdelay=%s",
		j.ID, j.Sender, j.From, j.info.Size(), j.Recipients, j.LogID,
		clock(now.Sub(j.info.ModTime())), clock(now.Sub(startedAt))))
}

// announce tells the scheduler of a control file. An error does not matter: the
// scheduler watches transport/.
func (r *service) announce(path string) {
	if r.notify != nil {
		_ = r.notify.Announce(path)
	}
}

// clock writes a span as HH:MM:SS.
func clock(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
