package main

// The loop: what wakes the router, and which submissions wait.

import (
	"errors"
	"fmt"
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

	"zsched/internal/logs"
	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/internal/zenv"
	"zsched/queue"
	"zsched/router"
	"zsched/router/table"
)

const (
	// sweepInterval is how often router/ is read in case an event was lost.
	sweepInterval = 10 * time.Second
	// firstRetry is how long a submission that could not be routed waits. The time
	// doubles each time, up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// tableInterval is how often the files of the tables are checked for changes.
	tableInterval = time.Second
)

// service is the running program. One goroutine does everything.
type service struct {
	machine *router.Machine
	queue   *submissions
	loader  *table.Loader
	log     zerolog.Logger
	syslog  *logs.Syslog     // nil: none
	notify  *queue.Announcer // the scheduler's socket; nil: none
	waiting []string         // names below router/, each once here or in large
	large   []string         // those that turned out not to be small (lanes.go)
	known   map[string]bool  // the names in both
	retries map[string]retry // those that failed, by name
	retryAt time.Time        // when the next of them may be due; zero: none waits
	checkAt time.Time        // when the tables' files are checked next
	strays  strays           // entries of router/ to be logged
	// failures limits the log lines about submissions that are tried again.
	failures logs.Throttle
	reloads  postoffice.ReloadRecord
	// limit bounds a batch while there are too few file descriptors for batchLimit
	// submissions; 0: there are enough.
	limit int
	turns int // batches of small mail since the last of large mail, while that waits
	// replaced is why the router ends, or nil: a directory of the postoffice was replaced.
	replaced error
}

// retry is when a submission is tried again.
type retry struct {
	at    time.Time
	pause time.Duration // before that
}

func newRouter(o *options, env *zenv.File, loader *table.Loader, log zerolog.Logger) (*service, error) {
	maxSize, err := env.RouterMaxSize()
	if err != nil {
		return nil, err
	}
	levels, _ := env.HashLevels()
	q, err := openSubmissions(env.Value("POSTOFFICE"), levels)
	if err != nil {
		return nil, err
	}
	host := hostname()
	if !strings.Contains(host, ".") {
		host = loader.Domains[0]
	}
	r := &service{
		machine: &router.Machine{
			Host: host, MaxHops: o.maxHops, MaxSize: maxSize, MaxTargets: maxTargets, Login: loginName,
			Trusted: map[int]bool{0: true, os.Geteuid(): true},
		},
		queue: q, loader: loader, log: log,
		known: map[string]bool{}, retries: map[string]retry{},
		failures: logs.Throttle{Number: 5, Period: time.Second},
		reloads:  postoffice.ReloadRecord{Path: filepath.Join(q.dir, postoffice.RouterReload)},
	}
	if socket := env.Value("SCHEDULERNOTIFY"); socket != "" {
		r.notify = queue.NewAnnouncer(socket)
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
		r.machine.Trusted[uid] = true
	}
	if flags, set := env.Lookup("SYSLOGFLG"); !set || strings.ContainsAny(flags, "rR") {
		r.syslog = logs.OpenSyslog(logs.SyslogOptions{Tag: "router"})
	}
	return r, nil
}

func serve(o *options, env *zenv.File, loader *table.Loader, log zerolog.Logger) error {
	r, err := newRouter(o, env, loader, log)
	if err != nil {
		return err
	}
	defer r.queue.Close()
	defer r.syslog.Close()
	if r.queue.claim, err = process.NewClaim(r.queue.dir, "router", process.RouterDir, queueDirs[:]...); err != nil {
		return err
	}
	defer r.queue.claim.Close()
	log.Info().Int("pid", os.Getpid()).Msg("router started")
	r.recordReload(nil)
	r.warnOfRoutes()
	if o.once {
		r.drain()
		return r.replaced
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
	if r.replaced == nil {
		log.Info().Msg("router stopped")
	}
	return r.replaced
}

// loop routes mail until a signal comes, or a directory was replaced.
func (r *service) loop(signals <-chan os.Signal, w *fsnotify.Watcher, notified <-chan string) {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	retries := time.NewTimer(lastRetry)
	defer retries.Stop()
	r.sweep()
	ready := make(chan struct{})
	close(ready)
	for r.replaced == nil {
		var work <-chan struct{}
		if !r.idle() {
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
			r.strays.log(r, false)
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

func (r *service) sweep() {
	for _, name := range r.queue.names() {
		r.add(name)
	}
}

// retry adds the failed submissions whose time has come.
func (r *service) retry() {
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

func (r *service) wakeAt(at time.Time) {
	if r.retryAt.IsZero() || at.Before(r.retryAt) {
		r.retryAt = at
	}
}

// add adds a submission to those that wait, unless it failed shortly before.
func (r *service) add(name string) {
	if failed, ok := r.retries[name]; ok && time.Now().Before(failed.at) || r.known[name] {
		return
	}
	r.known[name] = true
	r.waiting = append(r.waiting, name)
}

// drain routes all submissions that wait.
func (r *service) drain() {
	r.recover()
	r.sweep()
	for !r.idle() && r.replaced == nil {
		r.batch()
	}
	r.strays.log(r, true)
}

// recover completes or undoes what an interruption has left.
func (r *service) recover() {
	paths, err := r.queue.recover()
	for _, path := range paths {
		r.log.Info().Str("file", path).Msg("queued after an interruption")
		r.announce(path)
	}
	if err != nil && !r.endIfReplaced(err) {
		r.log.Error().Err(err).Msg("recovery of the staging directory")
	}
}

// endIfReplaced makes the router end if the error is that a directory of the postoffice is
// another one than at the start. Mail there may be another router's.
func (r *service) endIfReplaced(err error) bool {
	if errors.Is(err, process.ErrReplaced) {
		r.replaced = err
	}
	return r.replaced != nil
}

// refresh reads the tables again if they have changed or force is set. If they have
// errors, the old ones stay in force.
func (r *service) refresh(force bool) {
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
	r.warnOfRoutes()
}

// noRouteForOthers is the warning about routes without the pattern "*".
const noRouteForOthers = "no line has the pattern *, so mail to other domains fails"

// warnOfRoutes logs that the routes leave domains out. A site may want that, but a line may
// also have been lost.
func (r *service) warnOfRoutes() {
	if !r.loader.Table().Routes.MatchAll() {
		r.log.Warn().Str("file", r.loader.RoutesFile).Msg(noRouteForOthers)
	}
}

// recordReload writes why a reload failed to a file in POSTOFFICE, where the scheduler
// finds it for mailq, or removes that file.
func (r *service) recordReload(failure error) {
	if err := r.reloads.Set(failure); err != nil {
		r.log.Warn().Err(err).Msg("the result of the reload is not recorded for mailq")
	}
}
