package daemon

import (
	"time"

	"zsched/scheduler"
	"zsched/scheduler/spool"
)

// Observers are several observers as one, each told in turn.
type Observers []Observer

// Event tells an event: Observer.
func (all Observers) Event(now time.Time, e scheduler.Event) {
	for _, o := range all {
		o.Event(now, e)
	}
}

// Action tells an action: Observer.
func (all Observers) Action(now time.Time, a scheduler.Action) {
	for _, o := range all {
		o.Action(now, a)
	}
}

// Result tells a result of the spool: Observer.
func (all Observers) Result(now time.Time, r spool.Result) {
	for _, o := range all {
		o.Result(now, r)
	}
}

// Turn tells the length of a turn: Observer.
func (all Observers) Turn(took time.Duration) {
	for _, o := range all {
		o.Turn(took)
	}
}
