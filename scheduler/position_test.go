package scheduler

import (
	"fmt"
	"slices"
	"testing"
)

// TestPositionsAgreeWithACount compares the positions of due vertices with a count
// over the whole queue, while random things happen. Each thread can be explained,
// and the rule that it waits for comes first.
func TestPositionsAgreeWithACount(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, seed)
			compared := 0
			for step := range 1500 {
				h.randomEvent()
				if step%20 == 0 {
					compared += comparePositions(t, h.s)
				}
			}
			if compared == 0 {
				t.Error("no position was compared")
			}
		})
	}
}

// comparePositions returns how many vertices with others before them it has found.
func comparePositions(t *testing.T, s *Scheduler) (compared int) {
	for _, thread := range s.threadsInOrder() {
		e := s.Explain(thread.key.channel, thread.key.host)
		if e.Wait != NoWait && (len(e.Rules) == 0 || e.Rules[0] != e.Wait) {
			t.Fatalf("%v waits for %q, and the rules are %q", thread.key, e.Wait, e.Rules)
		}
		s.eachLoaded(thread, func(v *vertex) {
			if v.state != due || v.flow == 0 {
				return
			}
			p := s.position(v, maxExplained)
			picks, jobs := s.picksBefore(v)
			if p.PicksBefore != picks || p.JobsBefore != jobs || p.More {
				t.Fatalf("%+v, want %d picks, %d jobs before it", p, picks, jobs)
			}
			if picks > 0 {
				compared++
			}
		})
	}
	return compared
}

// picksBefore counts what countBefore counts, in all vertices.
func (s *Scheduler) picksBefore(v *vertex) (picks, jobs int) {
	own := s.flows.At(v.flow)
	var messages []messageRef
	for _, t := range s.threadsInOrder() {
		s.eachLoaded(t, func(other *vertex) {
			if other == v || other.state != due || other.flow == 0 || other.aside || other.queue != t.active || !t.open {
				return
			}
			f := s.flows.At(other.flow)
			ahead := s.keyOf(other) < s.keyOf(v)
			if own.hasQuantum() != f.hasQuantum() {
				ahead = f.hasQuantum()
			}
			if f.share != own.share || !ahead {
				return
			}
			picks++
			if other.message != v.message && !slices.Contains(messages, other.message) {
				messages = append(messages, other.message)
			}
		})
	}
	return picks, len(messages)
}
