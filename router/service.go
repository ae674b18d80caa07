package router

// The loop: what wakes the router (inotify, the sweep, signals).

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"zsched/internal/logs"
	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/internal/zenv"
	"zsched/queue"
	"zsched/router/table"
)

// sweepInterval is how often router/ is read: for submissions that failed, and for those
// whose event was lost.
const sweepInterval = 10 * time.Second

// sweepPause is how many times the length of a sweep passes until the next one after lost events.
const sweepPause = 4

// strayStep is from how many entries of router/ that are no submissions on the log says so. Only
// the owner of each so many is looked up.
const strayStep = 1000

// Service is the running router. One goroutine does everything but sweep.
type Service struct {
	machine *Machine
	queue   *submissions
	loader  *table.Loader
	log     zerolog.Logger
	syslog  *logs.Syslog // nil: none
	notify  string       // the scheduler's socket; "": none
	waiting *waiting
	failed  map[string]bool   // the names of those that failed, which is logged once
	watcher *fsnotify.Watcher // nil: router/ is not watched
	// unrecovered is the error of the last recovery.
	unrecovered string
	// failures limits the log lines about submissions that are tried again.
	failures logs.Throttle
	full     logs.Throttle // one line about a disk without room
	strays   logs.Throttle // one line about entries of router/ that are no submissions
	// swept says how long the sweep that is under way has taken when it ends; nil: none is. again
	// says that another one is to follow. took is how long the last one has taken. After lost
	// events none begins before notBefore: any user can make more events than the router reads.
	// The loop owns all of them.
	swept     chan time.Duration
	again     bool
	took      time.Duration
	notBefore time.Time
	// stopping ends the sweep that is under way.
	stopping atomic.Bool
	reloads  postoffice.ReloadRecord
	// replaced is why the router ends, or nil: the postoffice was replaced.
	replaced error
	// counts are for metrics, which other goroutines read.
	counts   Counts
	counting sync.Mutex
}

// Counts are what the router has found and done since its start.
type Counts struct {
	SweptAt     time.Time // when router/ was last read
	Waiting     int       // submissions that were there
	OldestAt    time.Time // mtime of the oldest of them; zero: there was none
	Routed      int       // submissions, and so are Refused and Failures
	Recipients  int       // of those routed
	Refused     int       // of those routed; only the sender gets a notice
	Failures    int       // each attempt counts
	ReloadedAt  time.Time // when the tables were last read
	ReloadError error
}

// Counts returns what the router has counted.
func (r *Service) Counts() Counts {
	r.counting.Lock()
	defer r.counting.Unlock()
	return r.counts
}

// count changes the counts.
func (r *Service) count(change func(*Counts)) {
	r.counting.Lock()
	defer r.counting.Unlock()
	change(&r.counts)
}

// maxTargets is how many recipients a message may have with the members of aliases. A
// single list has at most 100000.
const maxTargets = 1000000

// Options are what a Service needs.
type Options struct {
	Env     *zenv.File
	Loader  *table.Loader // which has loaded the tables
	Host    string        // the name of this machine
	MaxHops int           // Received fields above which a message counts as looping
	Log     zerolog.Logger
}

// New returns the router of the postoffice in Options.Env.
func New(o Options) (*Service, error) {
	env, loader := o.Env, o.Loader
	maxSize, err := env.RouterMaxSize()
	if err != nil {
		return nil, err
	}
	levels, _ := env.HashLevels()
	q, err := openSubmissions(env.Value("POSTOFFICE"), levels)
	if err != nil {
		return nil, err
	}
	host := o.Host
	if !strings.Contains(host, ".") {
		host = loader.Domains[0]
	}
	r := &Service{
		machine: &Machine{
			Host: host, MaxHops: o.MaxHops, MaxSize: maxSize, MaxTargets: maxTargets, MaxUserRecipients: queue.MaxUserRecipients, Login: queue.LoginName,
			Trusted: map[int]bool{0: true, os.Geteuid(): true},
		},
		queue: q, loader: loader, log: o.Log, notify: env.Value("SCHEDULERNOTIFY"),
		failed:   map[string]bool{},
		failures: logs.Throttle{Number: 5, Period: time.Second},
		full:     logs.Throttle{Period: time.Minute},
		strays:   logs.Throttle{Period: 10 * time.Minute},
		counts:   Counts{SweptAt: time.Now()},
		reloads:  postoffice.ReloadRecord{Path: filepath.Join(q.dir, postoffice.RouterReload)},
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
	r.waiting = newWaiting(r.machine.Trusted)
	if flags, set := env.Lookup("SYSLOGFLG"); !set || strings.ContainsAny(flags, "rR") {
		r.syslog = logs.OpenSyslog(logs.SyslogOptions{Tag: "router"})
	}
	return r, nil
}

// Run routes mail until SIGINT or SIGTERM comes; SIGHUP and SIGUSR1 make it read the tables.
// With once it ends when none waits but for those of owners who are left alone. No other router may run
// in the postoffice.
func (r *Service) Run(signals <-chan os.Signal, once bool) (err error) {
	defer r.queue.Close()
	defer r.syslog.Close()
	if r.queue.claim, err = process.NewClaim(r.queue.dir, "router", queue.RouterStaging); err != nil {
		return err
	}
	defer r.queue.claim.Close()
	r.log.Info().Int("pid", os.Getpid()).Msg("router started")
	r.recordReload(nil)
	r.warnOfRoutes()
	if once {
		r.drain()
		return r.replaced
	}
	r.recover()
	w, err := r.watch()
	if err != nil {
		r.log.Warn().Err(err).Msg("router/ is not watched; new mail is found by sweeping")
		w = new(fsnotify.Watcher)
	}
	r.loop(signals, w)
	if r.replaced == nil {
		r.log.Info().Msg("router stopped")
	}
	return r.replaced
}

// loop routes mail until a signal comes, or the postoffice was replaced.
func (r *Service) loop(signals <-chan os.Signal, w *fsnotify.Watcher) {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	r.startSweep()
	defer r.endSweep()
	for r.replaced == nil {
		select {
		case s := <-signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				return
			}
			r.refresh(true)
			r.startSweep()
		case e := <-w.Events:
			r.onEvent(w, e)
		case err := <-w.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				r.log.Warn().Err(err).Msg("watching router/")
			}
			// What is lost soon after that sweep is found at the next tick.
			if now := time.Now(); now.After(r.notBefore) {
				r.notBefore = now.Add(min(max(sweepPause*r.took, time.Second), sweepInterval))
				r.startSweep()
			}
		case <-sweep.C:
			r.refresh(false)
			r.recover()
			r.startSweep()
		case r.took = <-r.swept:
			r.swept = nil
			if r.again {
				r.startSweep()
			}
		case <-r.waiting.ready:
			// Submissions that have arrived by now share the syncs of this batch.
			for n := len(w.Events); n > 0; n-- {
				r.onEvent(w, <-w.Events)
			}
			r.batch()
			if !r.waiting.empty() {
				r.waiting.wake()
			}
		}
	}
}

// startSweep sweeps beside the routing: any user can make a million entries in router/, and to
// read them takes seconds. If a sweep is under way, another one follows.
func (r *Service) startSweep() {
	if r.again = r.swept != nil; r.again {
		return
	}
	ended, began := make(chan time.Duration, 1), time.Now()
	r.swept = ended
	go func() {
		if r.watcher != nil {
			_ = r.addWatches(r.watcher) // before the sweep, which finds what has come in unwatched
		}
		r.sweep()
		ended <- time.Since(began)
	}()
}

// endSweep ends the sweep that is under way.
func (r *Service) endSweep() {
	r.stopping.Store(true)
	if r.swept != nil {
		<-r.swept
	}
}

// sweep adds the submissions in router/. Those in a directory that cannot be read are found
// later.
func (r *Service) sweep() {
	now := time.Now()
	found, oldestAt := 0, time.Time{}
	strays, owners := 0, map[int]int{}
	_ = postoffice.EachEntry(r.queue.dir, func(name string, info os.FileInfo) bool {
		r.waiting.add(name, process.UserOf(ownerOf(info)), now)
		found++
		if at := info.ModTime(); found == 1 || at.Before(oldestAt) {
			oldestAt = at
		}
		return !r.stopping.Load()
	}, func(path string) bool {
		if strays++; strays%strayStep == 0 {
			if info, err := postoffice.Lstat(path); err == nil {
				owners[ownerOf(info)]++
			}
		}
		return !r.stopping.Load()
	})
	if strays >= strayStep && r.strays.Allow("", now) {
		line := r.log.Warn().Int("entries", strays)
		if len(owners) > 0 {
			uids := slices.Collect(maps.Keys(owners))
			line = line.Int("uid", slices.MaxFunc(uids, func(a, b int) int { return owners[a] - owners[b] }))
		}
		line.Msg("router/ has many entries that are no submissions; probably most of them belong to this uid")
	}
	r.count(func(c *Counts) { c.SweptAt, c.Waiting, c.OldestAt = now, found, oldestAt })
}

// add adds a new file of router/ to those that wait.
func (r *Service) add(name string) {
	info, err := postoffice.Lstat(filepath.Join(r.queue.dir, "router", name))
	if err == nil && info.Mode().IsRegular() {
		r.waiting.add(name, process.UserOf(ownerOf(info)), time.Now())
	}
}

// drain routes all submissions that wait.
func (r *Service) drain() {
	r.recover()
	r.sweep()
	for !r.waiting.empty() && r.replaced == nil {
		r.batch()
	}
}

// recover completes or undoes what an interruption has left. What lasts for many sweeps is logged
// once.
func (r *Service) recover() {
	paths, err := r.queue.Recover(func(path, name, why string) error {
		err := r.queue.quarantine(path, name, why)
		if err == nil {
			r.log.Error().Str("file", path).Str("error", why).Msg("moved to corrupt/router")
		}
		return err
	})
	for _, path := range paths {
		r.log.Info().Str("file", path).Msg("queued after an interruption")
		r.announce(path)
	}
	before := r.unrecovered
	r.unrecovered = fmt.Sprint(err)
	if err != nil && !r.endIfReplaced(err) && r.unrecovered != before {
		r.log.Error().Err(err).Msg("recovery of the staging directory")
	}
}

// endIfReplaced makes the router end if the error is that its claim to the postoffice is lost:
// mail there may be another router's.
func (r *Service) endIfReplaced(err error) bool {
	if errors.Is(err, process.ErrReplaced) {
		r.replaced = err
	}
	return r.replaced != nil
}

// refresh reads the tables again if they have changed or force is set. If they have
// errors, the old ones stay in force.
func (r *Service) refresh(force bool) {
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

// warnOfRoutes logs what is probably a mistake in the routes.
func (r *Service) warnOfRoutes() {
	for _, doubt := range r.loader.Table().Routes.Doubts(r.loader.RoutesFile) {
		r.log.Warn().Msg(doubt.Error())
	}
}

// recordReload writes why a reload failed to a file in POSTOFFICE, where the scheduler
// finds it for mailq, or removes that file.
func (r *Service) recordReload(failure error) {
	r.count(func(c *Counts) { c.ReloadedAt, c.ReloadError = time.Now(), failure })
	if err := r.reloads.Set(failure); err != nil {
		r.log.Warn().Err(err).Msg("the result of the reload is not recorded for mailq")
	}
}
