// Discard is the agent that discards mail: discard(8).
package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"zsched/cmd/ta/internal/program"
	"zsched/ta"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	p := program.New("discard", "", stdout, stderr)
	a := &agent{}
	p.Flags.IntVar(&a.fail, "fail", 0, "`percent` of the recipients that fail")
	p.Flags.IntVar(&a.deferred, "defer", 0, "`percent` of the recipients that are deferred")
	p.Flags.IntVar(&a.deferAll, "deferall", 0, "`percent` of the messages that are answered with deferall")
	log := p.Flags.String("log", "", "`file` that gets a line \"path offset\" for each delivery")
	err := p.Parse(args)
	if err == nil {
		err = p.Host()
	}
	if err == nil {
		err = a.check()
	}
	if err == nil && *log != "" && !p.Check {
		a.log, err = os.OpenFile(*log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	}
	if err != nil {
		return p.Exit(err)
	}
	p.Server.Deliver = a.deliver
	return p.Serve()
}

// agent discards mail. For trials of a scheduler.cf, and for tests, a share of it fails or is
// deferred by chance.
type agent struct {
	fail, deferred, deferAll int      // percent
	log                      *os.File // nil: none
}

func (a *agent) check() error {
	for _, percent := range []int{a.fail, a.deferred, a.deferAll, a.fail + a.deferred} {
		if percent < 0 || percent > 100 {
			return fmt.Errorf("%d percent is not between 0 and 100", percent)
		}
	}
	return nil
}

var discarded = ta.Result{Status: ta.OK, Text: "discarded", Fields: ta.Fields{Code: "2.0.0", Diagnostic: "x-local; 250 (discarded)"}}

// deliver reports all recipients of m: a delivery before the next one, the others together.
func (a *agent) deliver(m *ta.Message) {
	if a.deferAll > 0 && rand.IntN(100) < a.deferAll {
		res := ta.Failed("4.4.1", "destination is out of order")
		res.Status = ta.DeferAll
		m.ReportRest(func(*ta.Recipient) ta.Result { return res })
		return
	}
	var others map[*ta.Recipient]ta.Result
	for i := range m.Recipients {
		r := &m.Recipients[i]
		res := a.discard(m, r)
		if res.Status == ta.OK {
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

// discard returns the result of one recipient. A delivery is logged in one write, because
// other agents may write to the same file.
func (a *agent) discard(m *ta.Message, r *ta.Recipient) ta.Result {
	if a.fail+a.deferred > 0 {
		switch n := rand.IntN(100); {
		case n < a.fail:
			return ta.Failed("5.1.1", "failed on request")
		case n < a.fail+a.deferred:
			return ta.Failed("4.3.0", "deferred on request")
		}
	}
	if a.log != nil {
		if _, err := fmt.Fprintf(a.log, "%s %d\n", m.Job.Path, r.Offset); err != nil {
			return ta.Failed("4.3.0", err.Error())
		}
	}
	return discarded
}
