package admin

// The reader: the queue as queries and orders see it, job line by job line, with what only control
// files say.

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"zsched/ctlfile"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// reader reads the queue through the port, and control files in the caller's goroutine.
type reader struct {
	port  daemon.Port
	files Files
	log   zerolog.Logger
	// reading has room for one. It is full while a control file is read and used.
	reading chan struct{}
}

// walkFunc begins a walk over the queue.
type walkFunc func(*scheduler.Scheduler) *scheduler.Walk

func walkRings(s *scheduler.Scheduler) *scheduler.Walk    { return s.Walk(scheduler.Rings) }
func walkThreads(s *scheduler.Scheduler) *scheduler.Walk  { return s.Walk(scheduler.Threads) }
func walkVertices(s *scheduler.Scheduler) *scheduler.Walk { return s.Walk(scheduler.Vertices) }
func walkMessages(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkMessages() }

func walkThread(name mailq.Name) walkFunc {
	return func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkThread(name.Channel, name.Host) }
}

func walkMessage(id scheduler.MessageID) walkFunc {
	return func(s *scheduler.Scheduler) *scheduler.Walk { return s.WalkMessage(id) }
}

// walkNamed begins a walk over a message by spoolid, number or path.
func walkNamed(text string) walkFunc {
	return func(s *scheduler.Scheduler) *scheduler.Walk {
		n, _ := messageNumber(text)
		if _, found := inQueue(s, text); strings.HasPrefix(text, "S") && !found {
			n = 0 // no message has this number
		}
		return s.WalkMessage(scheduler.MessageID(n))
	}
}

// lines yields the job lines of a walk as the core knows them.
func (r *reader) lines(ctx context.Context, begin walkFunc) iter.Seq2[*view.JobLine, error] {
	return func(yield func(*view.JobLine, error) bool) {
		for item, err := range daemon.Walk(ctx, r.port, begin) {
			if err != nil {
				yield(nil, err)
				return
			}
			if item.JobLine != nil && !yield(item.JobLine, nil) {
				return
			}
		}
	}
}

// withFile calls use with a message as it is on disk, if it is there. A control file may have a
// million recipients: one at a time is read, for all sessions, and use should keep little of it.
func (r *reader) withFile(ctx context.Context, id string, use func(*spool.Stored) error) (found bool, err error) {
	select {
	case r.reading <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-r.reading }()
	m, err := r.files.Show(id)
	if m == nil || err != nil {
		return false, err
	}
	return true, use(m)
}

// search finds the job lines of one selection. It keeps what it needs of the control file that it read
// last: the next job line is probably of the same message.
type search struct {
	*reader
	where     *mailq.Selection
	now       time.Time
	spoolID   string           // of the message whose file was read last; "": none was
	messageID string           // its Message-ID
	users     map[int64]string // the addresses of its recipients that are selected, by offset
}

// selected yields the job lines that match, with those of their recipients that are selected.
func (r *reader) selected(ctx context.Context, where *mailq.Selection) iter.Seq2[*view.JobLine, error] {
	return func(yield func(*view.JobLine, error) bool) {
		begins, err := r.walksOf(ctx, where)
		if err != nil {
			yield(nil, err)
			return
		}
		s := &search{reader: r, where: where, now: time.Now()}
		for _, begin := range begins {
			for line, err := range r.lines(ctx, begin) {
				if err == nil {
					matches := s.matches(ctx, line)
					if err = ctx.Err(); err == nil && !matches {
						continue
					}
				}
				if !yield(line, err) || err != nil {
					return
				}
			}
		}
	}
}

// matches reports whether a job line matches, and leaves the recipients that are selected. It reads
// the control file only of a line that matches otherwise.
func (s *search) matches(ctx context.Context, line *view.JobLine) bool {
	if !s.where.Matches(line, s.now) {
		return false
	}
	if s.where.NeedsFile() {
		if s.addFile(ctx, line); !s.where.MatchesFile(line) {
			return false
		}
	}
	if s.where.SelectsRecipients() {
		line.Recipients = slices.DeleteFunc(line.Recipients, func(to mailq.Recipient) bool {
			return !s.where.MatchesAddress(&to) || !s.where.MatchesReason(line, &to)
		})
	}
	return !s.where.SelectsRecipients() || len(line.Recipients) > 0
}

// addFile adds to a job line what its control file says: the Message-ID and the addresses of the
// recipients that are selected. A control file that cannot be read leaves them empty.
func (s *search) addFile(ctx context.Context, line *view.JobLine) {
	if s.spoolID != line.SpoolID {
		s.spoolID, s.messageID, s.users = line.SpoolID, "", make(map[int64]string)
		_, _ = s.withFile(ctx, line.Path, func(m *spool.Stored) error {
			s.keep(m)
			return nil
		})
	}
	line.MessageID = s.messageID
	for i := range line.Recipients {
		line.Recipients[i].User = s.users[line.Recipients[i].Offset]
	}
}

// keep copies what is needed of a message.
func (s *search) keep(m *spool.Stored) {
	if m.Place > spool.Hold || m.File == nil || m.SpoolID() != s.spoolID {
		return
	}
	s.messageID = strings.Clone(m.File.MessageID)
	for i := range m.File.Recipients {
		to := &m.File.Recipients[i]
		if s.where.MatchesAddress(&mailq.Recipient{User: to.User}) {
			s.users[to.Offset] = strings.Clone(to.User)
		}
	}
}

// walksOf begins walks over the parts of the queue in which a selection can match.
func (r *reader) walksOf(ctx context.Context, where *mailq.Selection) (begins []walkFunc, err error) {
	switch id := where.MessageID; {
	case len(where.Messages) == 1:
		if n, ok := messageNumber(where.Messages[0]); ok {
			return []walkFunc{walkMessage(scheduler.MessageID(n))}, nil
		}
	case len(where.Threads) == 1:
		return []walkFunc{walkThread(lower(where.Threads[0]))}, nil
	case isName(id): // the core knows only a hash of it
		id = ctlfile.Unbracketed(id)
		err = r.port.Ask(ctx, func(l *daemon.Loop) {
			core := l.Core()
			for _, m := range append(core.ByMessageID(id, maxByMessageID), core.ByMessageID("<"+id+">", maxByMessageID)...) {
				begins = append(begins, walkMessage(m))
			}
		})
		return begins, err
	case isName(where.Host):
		err = r.port.Ask(ctx, func(l *daemon.Loop) {
			for _, c := range l.Core().Channels() {
				begins = append(begins, walkThread(lower(mailq.Name{Channel: c.Name, Host: where.Host})))
			}
		})
		return begins, err
	}
	if where.NeedsFile() {
		return []walkFunc{walkMessages}, nil // so that each file is read once
	}
	return []walkFunc{walkVertices}, nil
}

// maxByMessageID is how many messages with one Message-Id the core is asked for.
const maxByMessageID = 5000

// isName reports whether a text is a name: not empty and not a pattern.
func isName(s string) bool { return s != "" && !strings.ContainsAny(s, "*?") }

// lower maps a name to lower case, as it is in the queue.
func lower(name mailq.Name) mailq.Name {
	return mailq.Name{Channel: strings.ToLower(name.Channel), Host: strings.ToLower(name.Host)}
}

// unloaded yields the jobs of the messages that could not be loaded and that a selection matches, each
// recipient with the reason. A control file that cannot be understood has one job, for -/-.
func (r *reader) unloaded(ctx context.Context, where *mailq.Selection) iter.Seq2[*view.JobLine, error] {
	return func(yield func(*view.JobLine, error) bool) {
		why := r.files.Unloaded()
		for _, path := range slices.Sorted(maps.Keys(why)) {
			var jobs []*view.JobLine // none: it has left meanwhile, or it is not known whether it matches
			_, _ = r.withFile(ctx, path, func(m *spool.Stored) error {
				jobs = storedJobs(m)
				return nil
			})
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			for _, job := range jobs {
				job.State = mailq.StateUnloaded
				for i := range job.Recipients {
					job.Recipients[i].Reason = why[path].Reason
				}
				if where.Matches(job, time.Now()) && where.MatchesFile(job) && !yield(job, nil) {
					return
				}
			}
		}
	}
}

// storedJobs returns the job lines that the open recipients of a message have in
// the queue, or would have there.
func storedJobs(m *spool.Stored) (jobs []*view.JobLine) {
	switch {
	case m.Place > spool.Hold:
		return nil
	case m.File == nil:
		return []*view.JobLine{{
			Name: mailq.Name{Channel: "-", Host: "-"}, Message: view.MessageID(m.Name.ID), Path: m.Path(), SpoolID: m.SpoolID(),
			Sender: "-", ArrivedAt: m.ModifiedAt, Recipients: []mailq.Recipient{{User: "-"}},
		}}
	}
	byName := make(map[mailq.Name]*view.JobLine)
	for i := range m.File.Recipients {
		to := &m.File.Recipients[i]
		if m.File.Done(i) {
			continue
		}
		name := mailq.Name{Channel: to.RouteChannel(), Host: to.RouteHost()}
		job := byName[name]
		if job == nil {
			job = &view.JobLine{
				Name: name, Message: view.MessageID(m.Name.ID), Path: m.Name.Path, SpoolID: m.SpoolID(), ArrivedAt: m.ModifiedAt,
				MessageID: m.File.MessageID, Sender: senderOf(m.File), Source: ctlfile.ParseSource(m.File.Source).Name,
			}
			byName[name] = job
			jobs = append(jobs, job)
		}
		job.Recipients = append(job.Recipients, mailq.Recipient{Offset: to.Offset, User: to.User})
	}
	return jobs
}

// senderOf returns the sender of a control file; "" for the null sender.
func senderOf(f *ctlfile.File) string {
	if n := len(f.Senders); n > 0 && !f.NullSender {
		return f.Senders[n-1].User
	}
	return ""
}
