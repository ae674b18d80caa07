// Package discard is an agent that discards mail and reports it as delivered,
// discard(8): for channels whose mail nobody wants, and to try a scheduler.cf.
// For tests and benchmarks of the scheduler it can also let a share of its
// recipients fail or be deferred, take time for each message, and kill itself.
package discard

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"zsched/ta"
)

// Options say what happens to the mail. The zero value discards all of it.
type Options struct {
	Fail     int // percent of the recipients that fail for good
	Defer    int // percent of the recipients that are deferred
	DeferAll int // percent of the messages that are answered with deferall
	// RetryAt is when deferred recipients ask to be tried again: "+N" seconds
	// from now, "N" seconds since the epoch, or "" for no time.
	RetryAt string
	Delay   time.Duration // for each message, before its first recipient
	// DieAfter is the number of deliveries after which the agent kills itself.
	// The last recipient is then delivered, but neither reported nor marked. 0
	// means never.
	DieAfter int
	Log      string // file that gets a line "path offset" for each delivery, or ""
	Seed     uint64 // of the random numbers; 0: a different one each time
}

// Agent is the agent. Its Deliver goes into a ta.Server.
type Agent struct {
	options Options
	retry   ta.Retry
	log     *os.File
	die     func()

	mu   sync.Mutex
	rand *rand.Rand
	left int // deliveries before the agent kills itself
}

// New checks the options and opens the log.
func New(o Options) (*Agent, error) {
	for _, percent := range []int{o.Fail, o.Defer, o.DeferAll, o.Fail + o.Defer} {
		if percent < 0 || percent > 100 {
			return nil, fmt.Errorf("%d percent is not between 0 and 100", percent)
		}
	}
	a := &Agent{options: o, left: o.DieAfter, die: killSelf}
	if o.RetryAt != "" {
		digits, relative := strings.CutPrefix(o.RetryAt, "+")
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil {
			return nil, fmt.Errorf("retryat %q is neither +seconds nor a time", o.RetryAt)
		}
		a.retry = ta.Retry{Given: true, Relative: relative, Seconds: int64(n)}
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	a.rand = rand.New(rand.NewPCG(o.Seed, 0))
	if o.Log != "" {
		f, err := os.OpenFile(o.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return nil, err
		}
		a.log = f
	}
	return a, nil
}

// killSelf does not return.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Deliver reports all recipients of m. It may be called by several goroutines.
func (a *Agent) Deliver(m *ta.Message) {
	if a.options.Delay > 0 {
		time.Sleep(a.options.Delay)
	}
	if a.options.DeferAll > 0 && a.chance(a.options.DeferAll) {
		m.ReportRest(func(*ta.Recipient) ta.Result {
			res := ta.Failed("4.4.1", "destination is out of order")
			res.Status = ta.DeferAll
			return res
		})
		return
	}
	// A delivery is reported before the next one. The other results are reported
	// together, with one write of diagnostics.
	var others map[*ta.Recipient]ta.Result
	for i := range m.Recipients {
		r := &m.Recipients[i]
		res := a.decide()
		if res.Status == ta.OK {
			if err := a.deliver(m, r); err != nil {
				res = ta.Failed("4.3.0", err.Error())
			}
			r.Report(res)
			continue
		}
		if others == nil {
			others = map[*ta.Recipient]ta.Result{}
		}
		others[r] = res
	}
	m.ReportRest(func(r *ta.Recipient) ta.Result { return others[r] })
}

// decide chooses the result of one recipient at random.
func (a *Agent) decide() ta.Result {
	fail, deferred := a.options.Fail, a.options.Defer
	if fail+deferred > 0 {
		switch n := a.roll(); {
		case n < fail:
			return ta.Failed("5.1.1", "failed on request")
		case n < fail+deferred && a.retry.Given:
			res := ta.Failed("4.3.0", "deferred on request")
			res.Status, res.Retry = ta.RetryAt, a.retry
			return res
		case n < fail+deferred:
			return ta.Failed("4.3.0", "deferred on request")
		}
	}
	return discarded
}

var discarded = ta.Result{Status: ta.OK, Text: "discarded", Fields: ta.Fields{Code: "2.0.0", Diagnostic: "x-local; 250 (discarded)"}}

// deliver logs the delivery, in one write, because other agents may write to the
// same file. It kills the agent after its last delivery.
func (a *Agent) deliver(m *ta.Message, r *ta.Recipient) error {
	if a.log != nil {
		line := make([]byte, 0, 64)
		line = append(line, m.Job.Path...)
		line = append(line, ' ')
		line = strconv.AppendInt(line, r.Offset, 10)
		line = append(line, '\n')
		if _, err := a.log.Write(line); err != nil {
			return err
		}
	}
	if a.options.DieAfter > 0 {
		a.mu.Lock()
		a.left--
		last := a.left == 0
		a.mu.Unlock()
		if last {
			a.die()
		}
	}
	return nil
}

func (a *Agent) chance(percent int) bool { return a.roll() < percent }

// roll returns a random number below 100.
func (a *Agent) roll() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rand.IntN(100)
}
