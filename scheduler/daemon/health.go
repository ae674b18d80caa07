package daemon

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// What is taken for standing still.
const (
	loopPatience  = 5 * time.Second  // for the loop to answer
	filePatience  = 2 * time.Minute  // for the spool to answer what it was asked
	sweepPatience = 15 * time.Minute // for it to find its way through the queue
)

// serveHealth answers 200 while mail can move, and 503 with a reason when the
// loop or the spool stands still.
func (d *Daemon) serveHealth(w http.ResponseWriter, r *http.Request) {
	if why := d.illness(r.Context()); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// illness says what is wrong; "" when nothing is.
func (d *Daemon) illness(ctx context.Context) (why string) {
	ctx, cancel := context.WithTimeout(ctx, loopPatience)
	defer cancel()
	if err := d.ask(ctx, func() { why = d.spoolIllness() }); err != nil {
		return fmt.Sprintf("the loop does not answer: %v", err)
	}
	return why
}

// spoolIllness runs in the loop.
func (d *Daemon) spoolIllness() string {
	t := &d.tally
	silent := d.now.Sub(t.spokeAt)
	switch {
	case t.spoolErr != "":
		return "the spool cannot be written: " + t.spoolErr
	case d.filing+len(d.intake.taking) > 0 && silent > filePatience:
		return fmt.Sprintf("the spool has %d changes and %d readings to do and has said nothing for %v",
			d.filing, len(d.intake.taking), silent.Round(time.Second))
	case len(d.Operands) == 0 && silent > sweepPatience && d.now.Sub(t.sweptAt) > sweepPatience:
		return fmt.Sprintf("the spool has not been swept for %v", d.now.Sub(t.sweptAt).Round(time.Second))
	}
	return ""
}
