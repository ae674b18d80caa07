package admin

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/memdisk"
	"zsched/internal/testing/promise"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/view"
)

var (
	promiseSteps = flag.Int("promise.steps", 0, "TestAnswersAreKept gives so many orders; 0: some thousand")
	promiseSeed  = flag.Uint64("promise.seed", 0, "the seed of the only run of TestAnswersAreKept; 0: many")
)

// TestAnswersAreKept gives random orders in two sessions at once, to the real loop with a real
// spool on a disk in memory and agents that deliver and defer, while mail comes in, the
// configuration is read again, holds reach their time limits, and the scheduler stops, is killed and
// starts again. Package promise says what each answer promises.
func TestAnswersAreKept(t *testing.T) {
	seed, steps := uint64(1), 4000
	if testing.Short() {
		steps = 1000
	}
	if *promiseSteps != 0 {
		seed, steps = rand.Uint64()>>1, *promiseSteps
	}
	if *promiseSeed != 0 {
		seed, steps = *promiseSeed, 1
	}
	promises, runs := map[view.Verb]int{}, 0
	for given := 0; given < steps && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer postoffice.Mount(w.office, w.disk)()
			w.run()
			given += w.given
			for verb, n := range w.book.Promises() {
				promises[verb] += n
			}
		})
		runs++
	}
	t.Logf("runs: %d, promises: %v", runs, promises)
	for _, verb := range []view.Verb{view.VerbHold, view.VerbRelease, view.VerbKill, view.VerbExpire, view.VerbRequeue, view.VerbReroute} {
		if promises[verb] == 0 && *promiseSeed == 0 {
			t.Errorf("no answer to %s has promised anything", verb)
		}
	}
}

const (
	lives         = 5 // of the scheduler in a run
	roundsInLife  = 3
	ordersInRound = 8 // of each session
)

// world is a run: a scheduler that is stopped or killed several times.
type world struct {
	t      *testing.T
	rand   *rand.Rand
	book   *promise.Book
	disk   *memdisk.Disk
	office string
	now    *life  // of the scheduler
	last   int    // message
	chosen string // what the last order was about: a control file or a host
	agents int
	given  int  // orders
	good   bool // agents deliver everything
	log    []string
	mu     sync.Mutex // protects the fields above and random, in sessions
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 1)), book: promise.New(), office: fmt.Sprint("/promise-", seed)}
	w.disk = memdisk.New(w.office, os.Geteuid(), rand.New(rand.NewPCG(seed, 2)))
	for _, dir := range []string{"router", "public", "queue", "transport"} {
		if err := postofficeDir(w, dir); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// intN is a random number from 0 to n-1, for any goroutine.
func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

// pause waits up to so long.
func (w *world) pause(most time.Duration) { time.Sleep(time.Duration(w.intN(int(most)))) }

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, time.Now().Format("04:05.000000 ")+fmt.Sprintf(format, args...))
}

func (w *world) run() {
	for range lives {
		w.start()
		for range roundsInLife {
			w.round().Wait()
			w.check()
		}
		sessions := w.round()
		w.pause(500 * time.Millisecond)
		if w.intN(2) == 0 {
			w.stop([]os.Signal{syscall.SIGTERM, syscall.SIGQUIT}[w.intN(2)])
		} else {
			w.kill()
		}
		sessions.Wait()
		if len(w.book.Wrong()) > 0 {
			break
		}
	}
	w.settle()
	for _, wrong := range w.book.Wrong() {
		w.t.Error(wrong)
	}
	if w.t.Failed() {
		w.t.Logf("run it alone with -promise.seed=%s; what happened:\n%s", path.Base(w.office)[len("promise-"):], strings.Join(w.log, "\n"))
	}
}

// round has two sessions give orders while mail comes in.
func (w *world) round() *sync.WaitGroup {
	all, l := new(sync.WaitGroup), w.now
	for range 2 {
		all.Go(func() {
			for range ordersInRound {
				w.pause([]time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second}[w.intN(3)])
				w.order(l)
			}
		})
	}
	all.Go(func() {
		for range 3 {
			w.pause(time.Second)
			w.submit()
			if w.intN(4) == 0 {
				l.signals <- syscall.SIGUSR1
			}
		}
	})
	return all
}

// order gives a random order.
func (w *world) order(l *life) {
	o := &promise.Order{Verb: view.VerbHold}
	given := mailq.Order{By: mailq.Actor{User: "root", Peer: "uid 0"}, Because: "a test"}
	if w.intN(3) == 0 {
		o.For = time.Duration(1+w.intN(90)) * time.Second
	}
	what := ""
	if w.intN(8) == 0 {
		what = w.choose([]string{"h0.example", "h1.example", "h2.example"})
		given.Thread = &mailq.Name{Channel: "smtp", Host: what}
		o.Thread = what
		if w.intN(2) == 0 {
			o.Verb, o.Addresses = view.VerbRelease, slices.Collect(maps.Keys(w.open()))
		}
	} else {
		given.Message, o.Addresses = w.target()
		if what = given.Message; what == "" {
			return
		}
		verbs := []view.Verb{
			view.VerbHold, view.VerbHold, view.VerbHold, view.VerbRelease, view.VerbRelease, view.VerbRelease,
			view.VerbRetry, view.VerbKill, view.VerbExpire, view.VerbRequeue, view.VerbReroute,
		}
		o.Verb = verbs[w.intN(len(verbs))]
	}
	if o.Verb != view.VerbHold {
		o.For = 0
	}
	given.Verb, given.For = o.Verb, o.For
	if o.Verb == view.VerbReroute {
		given.To = mailq.Name{Channel: "smtp", Host: fmt.Sprintf("h%d.example", w.intN(hosts))}
	}
	w.book.Give(o)
	w.note("%p: %s %s %v %v %v", o, o.Verb, what, o.For, given.To, o.Addresses)
	did, err := l.admin.Queue().Act(l.ctx, given)
	if off, _ := w.disk.IsOff(); off && err == nil {
		err = syscall.EIO
	}
	w.book.Answer(o, did, err)
	w.note("%p: answered %+v %v", o, did, err)
	w.mu.Lock()
	w.given++
	w.mu.Unlock()
}

// target chooses a message, by its spoolid, and returns the addresses of its open recipients. A
// number may have belonged to another message a second ago.
func (w *world) target() (spoolID string, addresses []string) {
	files := slices.Concat(w.controlFiles("transport"), w.controlFiles("hold/transport"))
	if len(files) == 0 {
		return "", nil
	}
	file := w.choose(files)
	for _, r := range w.read(file) {
		addresses = append(addresses, r.User)
	}
	spoolID, at := w.spoolID(file)
	if len(addresses) == 0 || time.Since(at) < 2*time.Second {
		return "", nil
	}
	return spoolID, addresses
}

// choose chooses from a list, often what the other session has just chosen.
func (w *world) choose(list []string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rand.IntN(2) == 0 || !slices.Contains(list, w.chosen) {
		w.chosen = list[w.rand.IntN(len(list))]
	}
	return w.chosen
}

// check lets what is under way end, and compares the disk and the core with what was promised.
func (w *world) check() {
	time.Sleep(90 * time.Second)
	synctest.Wait()
	for address, files := range w.open() {
		w.book.Open(address, files)
	}
	held := map[string]view.Hold{} // by the host of a thread, or by spoolid
	err := w.now.daemon.Ask(w.t.Context(), func(l *daemon.Loop) {
		for _, t := range l.Core().HeldThreads() {
			held[t.Host] = t.Hold
		}
		for _, id := range l.Core().HeldMessages() {
			m, _ := l.Core().Message(id)
			held[ctlfile.SpoolID(uint64(id), m.ModifiedAt)] = *m.Hold
		}
	})
	names := slices.Sorted(maps.Keys(held))
	recorded := w.recorded()
	if err != nil || !slices.Equal(names, recorded) {
		w.t.Errorf("held are %v, recorded are %v, %v", names, recorded, err)
	}
	w.note("held: %v", names)
	w.believe(held)
}

// believe takes what is listed as held for the answer to a HOLD.
func (w *world) believe(held map[string]view.Hold) {
	addresses := map[string][]string{}
	for _, file := range slices.Concat(w.controlFiles("transport"), w.controlFiles("hold/transport")) {
		id, _ := w.spoolID(file)
		for _, r := range w.read(file) {
			addresses[id] = append(addresses[id], r.User)
		}
	}
	for name, hold := range held {
		o := &promise.Order{Verb: view.VerbHold, Addresses: addresses[name]}
		if !hold.Until.IsZero() {
			o.For = time.Until(hold.Until)
		}
		if name[0] == 'h' {
			o.Thread = name
		}
		w.book.Give(o)
		w.book.Answer(o, view.Outcome{Recipients: len(o.Addresses)}, nil)
	}
}

// recorded returns what the records hold, of what is in the queue.
func (w *world) recorded() (names []string) {
	here := map[string]bool{}
	for _, file := range slices.Concat(w.controlFiles("transport"), w.controlFiles("hold/transport")) {
		id, _ := w.spoolID(file)
		here[id] = true
	}
	records, err := w.now.spool.Files().HoldRecords()
	if err != nil {
		w.t.Error(err)
	}
	held := map[string]bool{} // by the last record that names it
	for i := range records {
		r := &records[i]
		for _, t := range r.Threads {
			held[t.Host] = !r.Ended(time.Now())
		}
		for _, id := range r.Messages {
			held[id] = here[id] && !r.Ended(time.Now())
		}
	}
	for name, isHeld := range held {
		if isHeld {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// settle releases everything and has it delivered.
func (w *world) settle() {
	w.good = true
	w.start()
	for range 20 {
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for host := range hosts {
			w.act(view.VerbRelease, mailq.Order{Thread: &mailq.Name{Channel: "smtp", Host: fmt.Sprintf("h%d.example", host)}})
		}
		var ids []scheduler.MessageID
		_ = w.now.daemon.Ask(w.t.Context(), func(l *daemon.Loop) { ids = l.Core().HeldMessages() })
		for _, id := range ids {
			w.act(view.VerbRelease, mailq.Order{Message: fmt.Sprint(id)})
		}
		if len(w.open()) == 0 {
			break
		}
	}
	for _, address := range w.book.Unfinished() {
		w.t.Errorf("%s was neither delivered nor given up by an order", address)
	}
	if left := w.open(); len(left) > 0 {
		w.t.Errorf("left in the queue: %v", left)
	}
	w.stop(syscall.SIGTERM)
}

// act gives an order that must not fail, and ends all holds of what it releases.
func (w *world) act(verb view.Verb, given mailq.Order) {
	given.Verb = verb
	o := &promise.Order{Verb: verb, Addresses: slices.Collect(maps.Keys(w.open()))}
	if given.Thread != nil {
		o.Thread = given.Thread.Host
	}
	w.book.Give(o)
	did, err := w.now.admin.Queue().Act(w.now.ctx, given)
	if err != nil {
		w.t.Error(err)
	}
	w.book.Answer(o, did, err)
}
