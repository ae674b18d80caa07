package main

// The loop: what wakes the router, which submissions wait, and batches of them.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"zsched/cmd/router/table"
	"zsched/ctlfile"
	"zsched/internal/asyncsyslog"
	"zsched/internal/postoffice"
	"zsched/internal/zenv"
)

const (
	// batchLimit bounds the submissions of one batch; each is an open file.
	batchLimit = 200
	// batchBytes bounds the memory for the control files of a batch.
	batchBytes = 32 << 20
	// sweepInterval is how often router/ is read in case an event was lost.
	sweepInterval = 10 * time.Second
	// firstRetry is how long a submission that could not be routed waits. The time
	// doubles each time, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// tableInterval is how often the files of the tables are checked for changes.
	tableInterval = time.Second
)

// router is the running program. One goroutine does everything.
type router struct {
	machine *localMachine
	queue   *queue
	loader  *table.Loader
	log     zerolog.Logger
	syslog  *asyncsyslog.Writer // nil: none
	notify  *ctlfile.Announcer  // the scheduler's socket; nil: none
	waiting []string            // names below router/, each once
	known   map[string]bool     // the names in waiting
	retries map[string]retry    // those that failed, by name
	retryAt time.Time           // when the next of them may be due; zero: none waits
	checkAt time.Time           // when the tables' files are checked next
	failure string              // why the last reload failed; "": it did not
	// limit bounds a batch while there are too few file descriptors for batchLimit
	// submissions; 0: there are enough.
	limit int
}

// retry is when a submission is tried again.
type retry struct {
	at    time.Time
	pause time.Duration // before that
}

func newRouter(o *options, env *zenv.File, loader *table.Loader, log zerolog.Logger) (*router, error) {
	levels, _ := env.HashLevels()
	q, err := openQueue(env.Value("POSTOFFICE"), levels)
	if err != nil {
		return nil, err
	}
	host := hostname()
	if !strings.Contains(host, ".") {
		host = loader.Domains[0]
	}
	r := &router{
		machine: &localMachine{
			host: host, maxHops: o.maxHops, login: loginName,
			trusted: map[int]bool{0: true, os.Geteuid(): true},
		},
		queue: q, loader: loader, log: log,
		known: map[string]bool{}, retries: map[string]retry{},
	}
	if socket := env.Value("SCHEDULERNOTIFY"); socket != "" {
		r.notify = ctlfile.NewAnnouncer(socket)
	}
	for name := range strings.FieldsSeq(env.Value("ROUTERTRUSTED")) {
		u, err := user.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("ROUTERTRUSTED: %w", err)
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return nil, fmt.Errorf("ROUTERTRUSTED: user %s: %w", name, err)
		}
		r.machine.trusted[uid] = true
	}
	if flags, set := env.Lookup("SYSLOGFLG"); !set || strings.ContainsAny(flags, "rR") {
		r.syslog = asyncsyslog.Open(asyncsyslog.Options{Tag: "router", CloseTimeout: time.Second})
	}
	return r, nil
}

func serve(o *options, env *zenv.File, loader *table.Loader, log zerolog.Logger) error {
	r, err := newRouter(o, env, loader, log)
	if err != nil {
		return err
	}
	defer r.queue.close()
	defer r.syslog.Close()
	lock, err := lockPid(filepath.Join(r.queue.office, ".pid.router"))
	if err != nil {
		return err
	}
	defer lock.Close()
	log.Info().Int("pid", os.Getpid()).Msg("router started")
	r.recordReload(nil)
	if o.once {
		r.drain()
		return nil
	}
	r.recover()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE)
	w, err := r.watch()
	if err != nil {
		log.Warn().Err(err).Msg("router/ is not watched; new mail is found by sweeping")
		w = new(fsnotify.Watcher)
	}
	notified := r.listen(env.Value("ROUTERNOTIFY"))
	r.loop(signals, w, notified)
	log.Info().Msg("router stopped")
	return nil
}

func (r *router) loop(signals <-chan os.Signal, w *fsnotify.Watcher, notified <-chan string) {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	retries := time.NewTimer(lastRetry)
	defer retries.Stop()
	r.sweep()
	ready := make(chan struct{})
	close(ready)
	for {
		var work <-chan struct{}
		if len(r.waiting) > 0 {
			work = ready
		}
		var again <-chan time.Time
		if !r.retryAt.IsZero() {
			retries.Reset(time.Until(r.retryAt))
			again = retries.C
		}
		select {
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				return
			}
			r.refresh(true)
			r.sweep()
		case e := <-w.Events:
			r.onEvent(w, e)
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				r.log.Warn().Err(err).Msg("watching router/")
			}
			r.sweep()
		case name := <-notified:
			r.add(name)
		case <-sweep.C:
			r.refresh(false)
			r.recover()
			r.sweep()
		case <-again:
			r.retry()
		case <-work:
			// Submissions that have arrived by now share the syncs of this batch.
			for n := len(w.Events); n > 0; n-- {
				r.onEvent(w, <-w.Events)
			}
			r.batch()
		}
	}
}

func (r *router) sweep() {
	for _, name := range r.queue.names() {
		r.add(name)
	}
}

// retry adds the failed submissions whose time has come.
func (r *router) retry() {
	now := time.Now()
	r.retryAt = time.Time{}
	for name, failed := range r.retries {
		if now.Before(failed.at) {
			r.wakeAt(failed.at)
		} else {
			r.add(name)
		}
	}
}

func (r *router) wakeAt(at time.Time) {
	if r.retryAt.IsZero() || at.Before(r.retryAt) {
		r.retryAt = at
	}
}

// add adds a submission to those that wait, unless it failed shortly before.
func (r *router) add(name string) {
	if failed, ok := r.retries[name]; ok && time.Now().Before(failed.at) || r.known[name] {
		return
	}
	r.known[name] = true
	r.waiting = append(r.waiting, name)
}

// drain routes all submissions that wait.
func (r *router) drain() {
	r.recover()
	r.sweep()
	for len(r.waiting) > 0 {
		r.batch()
	}
}

// recover completes or undoes what an interruption has left.
func (r *router) recover() {
	paths, err := r.queue.recover()
	for _, path := range paths {
		r.log.Info().Str("file", path).Msg("queued after an interruption")
		r.announce(path)
	}
	if err != nil {
		r.log.Error().Err(err).Msg("recovery of the staging directory")
	}
}

// refresh reads the tables again if they have changed or force is set. If they have
// errors, the old ones stay in force.
func (r *router) refresh(force bool) {
	loaded, err := r.loader.Refresh(time.Now(), force)
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			r.log.Error().Str("error", strings.TrimSpace(line)).Msg("tables not reloaded; the old ones stay in force")
		}
		r.recordReload(err)
		return
	}
	if !loaded {
		return
	}
	r.recordReload(nil)
	t := r.loader.Table()
	r.log.Info().Int("routes", len(t.Routes.All())).Int("aliases", t.Aliases.Len()).Msg("tables reloaded")
}

// recordReload writes why a reload failed to a file in POSTOFFICE, where the scheduler
// finds it for mailq, or removes that file.
func (r *router) recordReload(failure error) {
	text := ""
	if failure != nil {
		text, _, _ = strings.Cut(failure.Error(), "\n")
		if text == r.failure {
			return // its time is that of the first failure
		}
	}
	r.failure = text
	path := filepath.Join(r.queue.office, postoffice.RouterReload)
	var err error
	if text == "" {
		if err = postoffice.Remove(postoffice.WorkingDir, path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else if err = postoffice.WriteFile(postoffice.WorkingDir, path+".new", []byte(text+"\n"), false); err == nil {
		err = postoffice.Replace(postoffice.WorkingDir, path+".new", postoffice.WorkingDir, path)
	}
	if err != nil {
		r.log.Warn().Err(err).Msg("the result of the reload is not recorded for mailq")
	}
}

// batch routes some of the submissions that wait.
func (r *router) batch() {
	if now := time.Now(); now.After(r.checkAt) {
		r.checkAt = now.Add(tableInterval)
		r.refresh(false)
	}
	var jobs []*job
	size, taken := 0, 0
	limit := r.batchMax()
	for taken < len(r.waiting) && len(jobs) < limit && size < batchBytes {
		name := r.waiting[taken]
		j, err := r.open(name)
		if tooManyFiles(err) && len(jobs) > 0 {
			// The work on the others needs descriptors too.
			half := len(jobs) / 2
			r.fewFiles(len(jobs), err)
			for _, j := range jobs[half:] {
				_ = j.file.Close()
				r.known[j.name] = true
				r.waiting = append(r.waiting, j.name)
			}
			jobs = jobs[:half]
			break
		}
		taken++
		delete(r.known, name)
		switch {
		case err != nil:
			r.fail(name, err)
		case j != nil:
			jobs = append(jobs, j)
			size += len(j.contents[0].Blocks[0].Header) + 200*j.recipients
		}
	}
	r.waiting = r.waiting[taken:]
	if len(r.waiting) == 0 {
		r.waiting = nil
	}
	r.commit(jobs)
}

// commit queues the jobs of a batch. Those for which there were too few descriptors
// wait for a smaller batch.
func (r *router) commit(jobs []*job) {
	startedAt := time.Now()
	r.queue.commit(jobs)
	few := false
	for _, j := range jobs {
		_ = j.file.Close()
		if tooManyFiles(j.err) && !j.moved && len(jobs) > 1 {
			r.add(j.name)
			if !few {
				r.fewFiles(len(jobs), j.err)
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
func (r *router) batchMax() int { return cmp.Or(r.limit, batchLimit) }

// fewFiles halves the batches after one of this size had too few descriptors.
func (r *router) fewFiles(size int, err error) {
	if r.limit == 0 {
		r.log.Warn().Err(err).Msg("too few file descriptors for a batch; batches are smaller")
	}
	r.limit = max(1, size/2)
}

// tooManyFiles reports whether an error is the limit on open files.
func tooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// open opens and routes a submission. It returns nil if the file does not exist any
// more.
func (r *router) open(name string) (*job, error) {
	in, err := r.queue.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		delete(r.retries, name)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	routed, err := r.machine.read(in, r.loader.Table())
	if err != nil {
		_ = in.file.Close()
		return nil, err
	}
	return &job{submission: in, routed: routed}, nil
}

// fail handles a submission that was not queued: one that cannot be read is
// quarantined, and any other is tried again.
func (r *router) fail(name string, err error) {
	var bad unreadable
	if errors.As(err, &bad) {
		path := filepath.Join(r.queue.office, "router", name)
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
		r.log.Error().Str("file", name).Err(err).Msg("submission not routed; it is tried again")
	}
	if len(r.retries) > 100000 {
		clear(r.retries)
	}
	pause := min(max(2*before.pause, firstRetry), lastRetry)
	r.retries[name] = retry{time.Now().Add(pause), pause}
	r.wakeAt(r.retries[name].at)
}

// finish logs and announces the result of a job.
func (r *router) finish(j *job, startedAt time.Time) {
	if j.err != nil {
		if j.moved {
			r.log.Error().Str("file", j.name).Err(j.err).Msg("message not queued yet; recovery will complete it")
			return
		}
		r.fail(j.name, j.err)
		return
	}
	delete(r.retries, j.name)
	r.announce(r.queue.path(j.inode))
	for _, c := range j.copies {
		r.announce(r.queue.path(c))
	}
	now := time.Now()
	r.log.Debug().Str("spoolid", j.id).Str("from", j.sender).Int("recipients", j.recipients).Msg("routed")
	r.syslog.Info(fmt.Sprintf("%s: from=%s, rrelay=%s, size=%d, nrcpts=%d, msgid=%s, delay=%s, xdelay=%s",
		j.id, j.sender, j.from, j.info.Size(), j.recipients, j.logID,
		clock(now.Sub(j.info.ModTime())), clock(now.Sub(startedAt))))
}

// announce tells the scheduler of a control file. An error does not matter: the
// scheduler watches transport/.
func (r *router) announce(path string) {
	if r.notify != nil {
		_ = r.notify.Announce(path)
	}
}

// clock is a span as HH:MM:SS.
func clock(d time.Duration) string {
	s := int(max(d, 0).Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}
