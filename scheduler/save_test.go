package scheduler

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// recipientKey identifies a recipient.
type recipientKey struct {
	message MessageID
	offset  int64
}

// everything goes through a pass, a few items at a time.
func everything(s *Scheduler) (recipients map[recipientKey]SavedRecipient, threads map[threadKey]SavedThread) {
	recipients, threads = map[recipientKey]SavedRecipient{}, map[threadKey]SavedThread{}
	var part Saved
	pass := s.Save()
	for more := true; more; {
		more = pass.Next(&part, 3)
		note(&part, recipients, threads)
	}
	return recipients, threads
}

func note(part *Saved, recipients map[recipientKey]SavedRecipient, threads map[threadKey]SavedThread) {
	for _, r := range part.Recipients {
		recipients[recipientKey{r.Message, r.Offset}] = r
	}
	for _, t := range part.Threads {
		threads[threadKey{t.Channel, t.Host}] = t
	}
}

// A scheduler that is told what another saved knows the same.
func TestRestoredIsAsSaved(t *testing.T) {
	compared := 0
	for seed := range uint64(15) {
		h := newHarness(t, seed)
		h.fixed = h.s.rules.config // so that no wait is longer than it allows now
		for n := 0; n < 1500 && h.s.mail.states[waiting] < 4; n++ {
			h.randomEvent()
		}
		saved, threads := everything(h.s)
		s := New(h.s.rules.config, rand.New(rand.NewPCG(1, 2)))
		for _, key := range slices.SortedFunc(maps.Keys(threads), func(a, b threadKey) int {
			return slices.Compare([]string{a.channel, a.host}, []string{b.channel, b.host})
		}) {
			s.Step(At(h.now), Restored{threads[key]})
		}
		for id, f := range h.files {
			m := f.message
			m.Recipients = nil
			for _, r := range f.recipients {
				if f.tags[r.Offset] != ctlfile.Open {
					continue
				}
				m.Recipients = append(m.Recipients, r)
				if known, ok := saved[recipientKey{id, r.Offset}]; ok {
					m.Saved = append(m.Saved, known)
				}
			}
			s.Step(At(h.now), Arrived{m})
			s.Check()
		}
		again, threadsAgain := everything(s)
		now := h.now.Unix()
		for key, want := range saved {
			got, ok := again[key]
			if want.NextAt <= now+1 || !ok {
				continue
			}
			compared++
			if got.Attempts != want.Attempts || got.Text != want.Text || got.NextAt != want.NextAt && got.NextAt != 0 {
				t.Errorf("restored %+v, saved %+v", got, want)
			}
		}
		for key, want := range threads {
			if got := threadsAgain[key]; want.SuspendedUntil > now+1 && got.SuspendedUntil != want.SuspendedUntil {
				t.Errorf("restored %+v, saved %+v", got, want)
			}
		}
	}
	if compared < 5 {
		t.Errorf("only %d recipients were waiting", compared)
	}
}

// Clocks that were set wrong in between let nothing wait longer than a step of
// retries, and nothing is taken for granted that the configuration does not allow.
func TestRestoredIsBounded(t *testing.T) {
	params := rule.Params{
		Interval: time.Minute, Retries: []int{1, 5, 2}, Jitter: 10, MaxThr: 10,
		Window: limit.WindowRules{Initial: 2, CohortLimit: 1},
		Expiry: 72 * time.Hour, Sessions: 1, Quantum: 50, Command: []string{"smtp"}, UID: -1, GID: -1,
	}
	config := &rule.Config{Defaults: params, Clauses: []rule.Clause{{
		Channel: "*", Host: "*", Settings: []rule.Setting{{Name: "command", Value: "smtp", Apply: func(p *rule.Params) { *p = params }}},
	}}}
	now := time.Unix(1_800_000_000, 0)
	longest := now.Add(72 * time.Hour)
	s := New(config, rand.New(rand.NewPCG(1, 2)))
	far := now.Add(1000 * time.Hour).Unix()
	s.Step(At(now), Restored{SavedThread{Channel: "smtp", Host: "retry", SuspendedUntil: far, Step: 1000, Dead: true}})
	s.Step(At(now), Restored{SavedThread{Channel: "smtp", Host: "retryat", SuspendedUntil: far}})
	s.Step(At(now), Restored{SavedThread{Channel: "smtp", Host: "wide", Step: -3}})
	s.Step(At(now), Restored{SavedThread{Channel: "smtp", Host: "none", Dead: true}})
	s.Step(At(now), Arrived{Message{
		ID: 1, Path: "1", ModifiedAt: now, Recipients: []ctlfile.OpenRecipient{{Offset: 100, Channel: "smtp", Host: "wide"}, {Offset: 200, Channel: "smtp", Host: "other"}},
		Saved: []SavedRecipient{{Message: 1, Offset: 100, NextAt: far, Attempts: 1 << 40, Step: -5, FedAt: -1}, {Message: 1, Offset: 200, NextAt: -far, Attempts: -1}},
	}})
	s.Check()
	if len(s.threads.byKey) != 4 || s.threads.byKey[threadKey{"smtp", "none"}] != nil {
		t.Errorf("%d threads", len(s.threads.byKey))
	}
	if got := s.agenda.timeAt(s.threads.byKey[threadKey{"smtp", "retry"}].suspendedUntil); !got.Equal(longest) {
		t.Errorf("suspended until %v, %v at most", got, longest)
	}
	if got, most := s.agenda.timeAt(s.threads.byKey[threadKey{"smtp", "retryat"}].suspendedUntil), now.Add(72*time.Hour); !got.Equal(most) {
		t.Errorf("suspended until %v, %v at most", got, most)
	}
	v := s.mail.vertices.At(s.mail.message(1).first)
	if v.state != waiting || !s.agenda.timeAt(s.threads.wakeAt(v)).Equal(longest) || v.first.attempts != 65535 {
		t.Errorf("waits until %v, %d attempts", s.agenda.timeAt(s.threads.wakeAt(v)), v.first.attempts)
	}
}
