package daemon

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"zsched/scheduler"
)

// survey is what only a walk over the whole queue can tell.
type survey struct {
	at       time.Time
	took     time.Duration
	jobs     map[scheduler.State]int
	oldestAt map[scheduler.State]time.Time // mtime of the oldest message file
	threads  map[scheduler.Wait]int        // those whose due mail waits
	// silentAt is the time of the last event of the recipient that has gone
	// longest without one; zero: there is none.
	silentAt time.Time
}

// A survey of a large queue takes the loop a second, in slices: it is looked
// at again only when it is surveyShare times as old as it took to make, and
// at least surveyAge.
const (
	surveyAge   = 5 * time.Second
	surveyShare = 50
)

// surveyor makes surveys, one at a time, for all who ask.
type surveyor struct {
	mu   sync.Mutex
	last *survey
}

func (s *surveyor) look(ctx context.Context, d *Daemon) (*survey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.last.at) < max(surveyAge, surveyShare*s.last.took) {
		return s.last, nil
	}
	made, err := d.survey(ctx)
	if err != nil {
		return nil, err
	}
	s.last = made
	return made, nil
}

func (d *Daemon) survey(ctx context.Context) (*survey, error) {
	s := &survey{
		at:       time.Now(),
		jobs:     make(map[scheduler.State]int),
		oldestAt: make(map[scheduler.State]time.Time),
		threads:  make(map[scheduler.Wait]int),
	}
	held := false
	for item, err := range (queries{d}).walk(ctx, walkVertices) {
		switch {
		case err != nil:
			return nil, err
		case item.Thread != nil:
			s.threads[item.Thread.Wait]++
			held = item.Thread.Held
		case item.Vertex != nil && item.Vertex.First == 0:
			s.count(item.Vertex, held, d.startedAt)
		}
	}
	s.took = time.Since(s.at)
	return s, nil
}

func (s *survey) count(v *scheduler.VertexView, held bool, startedAt time.Time) {
	s.jobs[v.State]++
	if oldest, ok := s.oldestAt[v.State]; !ok || v.ModifiedAt.Before(oldest) {
		s.oldestAt[v.State] = v.ModifiedAt
	}
	if held {
		return
	}
	last := v.ModifiedAt
	for _, at := range []time.Time{v.FedAt, startedAt} {
		if at.After(last) {
			last = at
		}
	}
	if s.silentAt.IsZero() || last.Before(s.silentAt) {
		s.silentAt = last
	}
}

// everyState is what jobs are counted by, so that none is missing where it is
// zero.
var everyState = []scheduler.State{
	scheduler.StateDue, scheduler.StateWaiting, scheduler.StateFed, scheduler.StateReading,
	scheduler.StatePoisoned, scheduler.StateDormant, scheduler.StateResting,
}

func (s *scrape) collectSurvey(c collector) {
	v := s.survey
	for _, state := range everyState {
		c.gauge("scheduler_jobs", "Job lines, each one message's recipients in one thread, by state.", float64(v.jobs[state]), "state", string(state))
		age := 0.0
		if oldest, ok := v.oldestAt[state]; ok {
			age = max(0, s.now.Sub(oldest).Seconds())
		}
		c.gauge("scheduler_oldest_seconds", "Age of the oldest message, by state.", age, "state", string(state))
	}
	for _, wait := range slices.Sorted(maps.Keys(v.threads)) {
		if wait != scheduler.NoWait {
			c.gauge("scheduler_threads_waiting", "Threads whose due mail is not fed, by what it waits for.", float64(v.threads[wait]), "for", string(wait))
		}
	}
	silence := 0.0
	if !v.silentAt.IsZero() {
		silence = max(0, s.now.Sub(v.silentAt).Seconds())
	}
	c.gauge("scheduler_oldest_without_event_seconds", "Longest time that a recipient of no held thread has gone without arriving or being given to an agent.", silence)
	c.gauge("scheduler_survey_age_seconds", "Age of the numbers by state.", max(0, s.now.Sub(v.at).Seconds()))
	for _, t := range s.top {
		c.gauge("scheduler_destination_jobs", "Job lines of the largest threads.", float64(t.jobs), "channel", t.channel, "host", t.host)
		c.gauge("scheduler_destination_oldest_seconds", "Age of the oldest message of the largest threads.", max(0, s.now.Sub(t.oldestAt).Seconds()), "channel", t.channel, "host", t.host)
	}
}

// destination is a thread as a scrape that asks for them has it.
type destination struct {
	channel, host string
	jobs          int
	oldestAt      time.Time
}

// topDestinations are the n threads with the most mail.
func (d *Daemon) topDestinations(ctx context.Context, n int) (top []destination, err error) {
	for item, err := range (queries{d}).walk(ctx, walkThreads) {
		if err != nil {
			return nil, err
		}
		if t := item.Thread; t != nil {
			top = append(top, destination{t.Channel, t.Host, t.Vertices, t.OldestAt})
		}
		if len(top) >= 2*n+walkSlice {
			top = largest(top, n)
		}
	}
	return largest(top, n), nil
}

func largest(all []destination, n int) []destination {
	slices.SortFunc(all, func(a, b destination) int {
		return cmp.Or(cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.channel, b.channel), cmp.Compare(a.host, b.host))
	})
	return all[:min(n, len(all))]
}
