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

// standing is what a walk over the threads tells.
type standing struct {
	jobs    map[scheduler.State]int
	threads map[scheduler.Wait]int // those whose due mail waits
	top     []destination
}

// stand walks over the threads; n of the largest are told.
func (d *Daemon) stand(ctx context.Context, n int) (*standing, error) {
	s := &standing{jobs: make(map[scheduler.State]int), threads: make(map[scheduler.Wait]int)}
	for item, err := range (queries{d}).walk(ctx, walkThreads) {
		if err != nil {
			return nil, err
		}
		t := item.Thread
		if t == nil {
			continue
		}
		s.threads[t.Wait]++
		for state, jobs := range countsOf(t.States) {
			s.jobs[state] += jobs
		}
		s.top = append(s.top, destination{t.Channel, t.Host, t.Vertices, t.OldestAt})
		if len(s.top) >= 2*n+walkSlice {
			s.top = largest(s.top, n)
		}
	}
	s.top = largest(s.top, n)
	return s, nil
}

// survey is what only a walk over every job tells.
type survey struct {
	at       time.Time
	took     time.Duration                 // of the loop's time
	oldestAt map[scheduler.State]time.Time // mtime of the oldest message file
	// silentAt is the time of the last event of the recipient that has gone
	// longest without one; zero: there is none.
	silentAt time.Time
}

// A survey of a million jobs takes the loop seconds. It is made in pieces with
// pauses between them, and again when it is surveyShare times as old as it
// took of the loop's time, and at least surveyAge.
const (
	surveyAge   = 5 * time.Second
	surveyShare = 50
	surveyPause = 4 // times the length of a piece
	// Who asks waits for so long, and has an older one then, or none.
	surveyPatience = time.Second
)

// surveyor makes surveys, one at a time, for all who ask.
type surveyor struct {
	mu    sync.Mutex
	last  *survey
	under chan struct{} // closed when the one under way is made; nil: none is
}

// look returns the last survey, nil if there is none yet.
func (s *surveyor) look(ctx context.Context, d *Daemon) *survey {
	s.mu.Lock()
	if s.under == nil && (s.last == nil || time.Since(s.last.at) >= max(surveyAge, surveyShare*s.last.took)) {
		s.under = make(chan struct{})
		go s.make(d)
	}
	under := s.under
	s.mu.Unlock()
	if under != nil {
		select {
		case <-under:
		case <-ctx.Done():
		case <-time.After(surveyPatience):
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *surveyor) make(d *Daemon) {
	made, err := d.survey()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.last = made
	}
	close(s.under)
	s.under = nil
}

func (d *Daemon) survey() (*survey, error) {
	s := &survey{oldestAt: make(map[scheduler.State]time.Time)}
	held, n := false, 0
	began := time.Now()
	for item, err := range (queries{d}).walk(context.Background(), walkVertices) {
		switch {
		case err != nil:
			return nil, err
		case item.Thread != nil:
			held = item.Thread.Held
		case item.Vertex != nil && item.Vertex.First == 0:
			s.count(item.Vertex, held, d.startedAt)
		}
		if n++; n%(16*walkSlice) == 0 {
			piece := time.Since(began)
			s.took += piece
			time.Sleep(surveyPause * piece)
			began = time.Now()
		}
	}
	s.at = time.Now()
	s.took += time.Since(began)
	return s, nil
}

func (s *survey) count(v *scheduler.VertexView, held bool, startedAt time.Time) {
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
	scheduler.StatePoisoned, scheduler.StateBlocked, scheduler.StateHolding,
}

func (s *scrape) collectStanding(c collector) {
	for _, state := range everyState {
		c.gauge("scheduler_jobs", "Job lines, each one message's recipients in one thread, by state.", float64(s.standing.jobs[state]), "state", string(state))
	}
	for _, wait := range slices.Sorted(maps.Keys(s.standing.threads)) {
		if wait != scheduler.NoWait {
			c.gauge("scheduler_threads_waiting", "Threads whose due mail is not fed, by what it waits for.", float64(s.standing.threads[wait]), "for", string(wait))
		}
	}
	for _, t := range s.standing.top {
		c.gauge("scheduler_destination_jobs", "Job lines of the largest threads.", float64(t.jobs), "channel", t.channel, "host", t.host)
		c.gauge("scheduler_destination_oldest_seconds", "Age of the oldest message of the largest threads.", max(0, s.now.Sub(t.oldestAt).Seconds()), "channel", t.channel, "host", t.host)
	}
}

func (s *scrape) collectSurvey(c collector) {
	v := s.survey
	if v == nil {
		return
	}
	for _, state := range everyState {
		age := 0.0
		if oldest, ok := v.oldestAt[state]; ok {
			age = max(0, s.now.Sub(oldest).Seconds())
		}
		c.gauge("scheduler_oldest_seconds", "Age of the oldest message, by state.", age, "state", string(state))
	}
	silence := 0.0
	if !v.silentAt.IsZero() {
		silence = max(0, s.now.Sub(v.silentAt).Seconds())
	}
	c.gauge("scheduler_oldest_without_event_seconds", "Longest time that a recipient of no held thread has gone without arriving or being given to an agent.", silence)
	c.gauge("scheduler_survey_age_seconds", "How long ago these ages were looked for.", max(0, s.now.Sub(v.at).Seconds()))
}

// destination is a thread as a scrape that asks for them has it.
type destination struct {
	channel, host string
	jobs          int
	oldestAt      time.Time
}

func largest(all []destination, n int) []destination {
	slices.SortFunc(all, func(a, b destination) int {
		return cmp.Or(cmp.Compare(b.jobs, a.jobs), cmp.Compare(a.channel, b.channel), cmp.Compare(a.host, b.host))
	})
	return all[:min(n, len(all))]
}
