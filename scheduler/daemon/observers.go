package daemon

import (
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// Observers combines several observers into one, which tells each in turn.
type Observers []Observer

// Event passes on an event: Observer.
func (all Observers) Event(now time.Time, e scheduler.Event) {
	for _, o := range all {
		o.Event(now, e)
	}
}

// Action passes on an action: Observer.
func (all Observers) Action(now time.Time, a scheduler.Action) {
	for _, o := range all {
		o.Action(now, a)
	}
}

// Result passes on a result of the spool: Observer.
func (all Observers) Result(now time.Time, r spool.Result) {
	for _, o := range all {
		o.Result(now, r)
	}
}

// Turn passes on the length of a turn: Observer.
func (all Observers) Turn(took time.Duration) {
	for _, o := range all {
		o.Turn(took)
	}
}
