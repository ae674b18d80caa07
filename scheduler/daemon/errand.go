package daemon

import (
	"context"

	"zsched/scheduler/spool"
)

// ownOps is set in the operations that the loop itself asks the spool for, so
// that they are not taken for the core's.
const ownOps = 1 << 63

// errand is something that the spool does for a session. What is to be done
// about its result is done in the loop, also when the session has gone.
type errand struct {
	begin func(op uint64)          // asks the spool; in the loop
	end   func(spool.Result) error // in the loop
}

// run has the spool do an errand, waits for its end and returns its error.
func (d *Daemon) run(ctx context.Context, e errand) error {
	done := make(chan error, 1)
	if err := d.ask(ctx, func() { d.begin(e, done) }); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-d.left:
		return errLeft
	}
}

// begin begins an errand, in the loop. Its error goes to done, which has room
// for it.
func (d *Daemon) begin(e errand, done chan<- error) {
	d.lastOwn++
	op := ownOps | d.lastOwn
	d.filing++
	d.errands[op] = func(r spool.Result) {
		d.filing--
		done <- e.end(r)
	}
	e.begin(op)
}

// errandEnded tells whether the result was that of an errand, which has its
// end then.
func (d *Daemon) errandEnded(op uint64, r spool.Result) bool {
	end, ok := d.errands[op]
	if ok {
		delete(d.errands, op)
		end(r)
	}
	return ok
}
