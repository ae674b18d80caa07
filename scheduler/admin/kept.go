package admin

// Mail that is kept back until somebody acts: held and quarantined mail, counted with the age
// and the reason of the oldest.

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/process"
	"zsched/mailq"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
)

// reuseFactor bounds how much of the time counting may take: a count is reused for
// reuseFactor times as long as the counting took. So the count of a few messages is
// seldom old, and a million held messages are not counted for each query.
const reuseFactor = 20

// countPause is the time until another attempt to count, after one has failed.
const countPause = time.Minute

// keptCounts are counts that need a search through directories or through the
// queue. The caller's goroutine makes that search.
type keptCounts struct {
	mu                                 sync.Mutex
	held, quarantined, notices, router keptCount
}

type keptCount struct {
	kept       mailq.Kept
	freshUntil time.Time
}

// addKept adds the counts of mail that is kept back to the totals.
func (q *Queue) addKept(ctx context.Context, t *mailq.Totals) error {
	k := &q.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range []struct {
		kind  string
		last  *keptCount
		count func(context.Context) (mailq.Kept, error)
	}{
		{"held", &k.held, q.oldestHeld},
		{"quarantined", &k.quarantined, q.countQuarantine},
		{"notices", &k.notices, q.countNotices},
		{"router", &k.router, q.countRouter},
	} {
		err := c.last.refresh(ctx, c.count)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			// The other totals do not depend on this one.
			q.log.Warn().Err(err).Str("kind", c.kind).Msg("mail that is kept back cannot be counted; the last count is shown")
			c.last.freshUntil = time.Now().Add(countPause)
		}
	}
	t.Quarantined, t.Notices = k.quarantined.kept, k.notices.kept
	if t.Held.Count > 0 {
		t.Held.OldestAt, t.Held.Reason = k.held.kept.OldestAt, k.held.kept.Reason
	}
	t.Router = mailq.Router{Count: k.router.kept.Count, OldestAt: k.router.kept.OldestAt}
	if q.controlDir != "" {
		running, ever := process.Daemon(filepath.Dir(q.controlDir), "router")
		t.Router.Dead = !running && (ever || t.Router.Count > 0)
		t.Router.Reload, t.SMTPReload = q.failedReload(postoffice.RouterReload), q.failedReload(postoffice.SMTPReload)
	}
	if u := q.files.Unloaded(); u.Messages > 0 {
		t.Unloaded = mailq.Kept{Count: u.Messages, OldestAt: u.Since, Reason: u.Reason}
	}
	return nil
}

// failedReload returns how the last reload of another program failed, or the zero value.
func (q *Queue) failedReload(name string) mailq.Reload {
	text, at := postoffice.FailedReload(filepath.Dir(q.controlDir), name)
	return mailq.Reload{At: at, Error: mailq.OneReply(text)}
}

// inPostoffice returns the path of a name in POSTOFFICE.
func (q *Queue) inPostoffice(name string) string {
	return filepath.Join(filepath.Dir(q.controlDir), name)
}

// isOldest counts one more of what is kept back, and reports whether none before it is older.
func isOldest(kept *mailq.Kept, at time.Time) bool {
	kept.Count++
	if !kept.OldestAt.IsZero() && !at.Before(kept.OldestAt) {
		return false
	}
	kept.OldestAt = at
	return true
}

// countRouter counts the submissions in router/.
func (q *Queue) countRouter(ctx context.Context) (kept mailq.Kept, err error) {
	if q.controlDir == "" {
		return kept, nil
	}
	err = postoffice.EachSubmission(filepath.Dir(q.controlDir), func(_ string, info os.FileInfo) bool {
		isOldest(&kept, info.ModTime())
		return ctx.Err() == nil
	})
	return kept, errors.Join(err, ctx.Err())
}

// countNotices counts the notices in postman/ that nobody got. An administrator reads and
// removes them.
func (q *Queue) countNotices(ctx context.Context) (kept mailq.Kept, err error) {
	if q.controlDir == "" {
		return kept, nil
	}
	err = eachFile(ctx, q.inPostoffice("postman"), func(name string, at time.Time) {
		if strings.HasSuffix(name, ctlfile.NoticeSuffix) && isOldest(&kept, at) {
			kept.Reason = "the sender is null, or a notice had no route; read and remove postman/" + name
		}
	})
	return kept, err
}

// eachFile calls f with each file of a directory whose name begins with a digit,
// except for the reasons in quarantine. A directory that does not exist is empty.
func eachFile(ctx context.Context, dir string, f func(name string, modified time.Time)) error {
	open, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer open.Close()
	for ctx.Err() == nil {
		names, err := open.Readdirnames(1000)
		for _, name := range names {
			if name[0] < '0' || name[0] > '9' || strings.HasSuffix(name, ".reason") {
				continue
			}
			if info, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				f(name, info.ModTime())
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// addRefused adds the submissions in corrupt/router/, where the router moves what
// it cannot read.
func (q *Queue) addRefused(ctx context.Context, kept *mailq.Kept) error {
	if q.controlDir == "" {
		return nil
	}
	dir := q.inPostoffice("corrupt/router")
	return eachFile(ctx, dir, func(name string, at time.Time) {
		if isOldest(kept, at) {
			text, _ := os.ReadFile(filepath.Join(dir, name+".reason"))
			_, reason, _ := strings.Cut(string(text), "\n")
			kept.Reason = mailq.LastReply(reason)
		}
	})
}

// refresh counts again if the count is not fresh.
func (c *keptCount) refresh(ctx context.Context, count func(context.Context) (mailq.Kept, error)) error {
	begun := time.Now()
	if begun.Before(c.freshUntil) {
		return nil
	}
	kept, err := count(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	c.kept, c.freshUntil = kept, now.Add(reuseFactor*now.Sub(begun))
	return nil
}

// countQuarantine counts the messages in corrupt/ and the submissions that the router has put
// there.
func (q *Queue) countQuarantine(ctx context.Context) (kept mailq.Kept, err error) {
	count, oldest, err := q.files.Quarantined(ctx)
	if err != nil {
		return kept, err
	}
	if kept.Count = count; oldest != nil {
		kept.OldestAt, kept.Reason = oldest.ModifiedAt, oldest.Reason
	}
	err = q.addRefused(ctx, &kept)
	return kept, err
}

// oldestOrder counts the threads that are held, with the time and the reason of
// the oldest order.
func oldestOrder(list []scheduler.ThreadOrder) mailq.Kept {
	kept := mailq.Kept{Count: len(list)}
	for _, t := range list {
		if !t.Since.IsZero() && (kept.OldestAt.IsZero() || t.Since.Before(kept.OldestAt)) {
			kept.OldestAt, kept.Reason = t.Since, t.Because
		}
	}
	return kept
}

// oldestHeld finds the oldest held message.
func (q *Queue) oldestHeld(ctx context.Context) (kept mailq.Kept, err error) {
	err = q.port.Ask(ctx, func(l *daemon.Loop) { kept.OldestAt, kept.Reason = l.Core().OldestHeld() })
	return kept, err
}
