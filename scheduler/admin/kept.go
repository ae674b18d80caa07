package admin

// Mail that is kept back until somebody acts: held and quarantined mail, counted with the age
// and the reason of the oldest.

import (
	"context"
	"errors"
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
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
	"zsched/scheduler/view"
)

// reuseFactor bounds how much of the time counting may take: the counts are reused for
// reuseFactor times as long as the counting took, but for maxReuse at most. So the count of a
// few messages is seldom old, and a million held messages are not counted for each query.
const (
	reuseFactor = 20
	maxReuse    = 30 * time.Second
)

// kept has the counts that need a search through directories or through the queue. The caller's
// goroutine makes that search.
type kept struct {
	*reader
	postoffice string // Options

	mu         sync.Mutex
	last       keptCounts
	freshUntil time.Time
}

type keptCounts struct{ held, quarantined, notices, router mailq.Kept }

// addTo adds the counts of mail that is kept back to the totals.
func (k *kept) addTo(ctx context.Context, t *mailq.Totals) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if begun := time.Now(); !begun.Before(k.freshUntil) {
		err := k.count(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k.freshUntil = time.Now().Add(min(reuseFactor*time.Since(begun), maxReuse))
		if err != nil { // the other totals do not depend on these
			k.log.Warn().Err(err).Msg("mail that is kept back cannot be counted completely")
			k.freshUntil = begun.Add(maxReuse)
		}
	}
	t.Quarantined, t.Notices = k.last.quarantined, k.last.notices
	if t.Held.Count > 0 {
		t.Held.OldestAt, t.Held.Reason = k.last.held.OldestAt, k.last.held.Reason
	}
	t.Router = mailq.Router{Count: k.last.router.Count, OldestAt: k.last.router.OldestAt}
	if k.postoffice != "" {
		running, ever := process.Daemon(k.postoffice, "router")
		t.Router.Dead = !running && (ever || t.Router.Count > 0)
		t.Router.Reload, t.SMTPReload = k.failedReload(postoffice.RouterReload), k.failedReload(postoffice.SMTPReload)
	}
	for _, u := range k.files.Unloaded() {
		if isOldest(&t.Unloaded, u.Since) {
			t.Unloaded.Reason = u.Reason
		}
	}
	return nil
}

// failedReload returns how the last reload of another program failed, or the zero value.
func (k *kept) failedReload(name string) mailq.Reload {
	text, at := postoffice.FailedReload(k.postoffice, name)
	return mailq.Reload{At: at, Error: mailq.OneReply(text)}
}

// count counts again. What cannot be counted stays as it was.
func (k *kept) count(ctx context.Context) error {
	err := k.port.Ask(ctx, func(l *daemon.Loop) { k.last.held.OldestAt, k.last.held.Reason = l.Core().OldestHeld() })
	if k.postoffice != "" {
		err = errors.Join(err, k.countNotices(), k.countRouter(ctx))
	}
	return errors.Join(err, k.countQuarantine(ctx))
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
func (k *kept) countRouter(ctx context.Context) error {
	var all mailq.Kept
	err := postoffice.EachSubmission(k.postoffice, func(_ string, info os.FileInfo) bool {
		isOldest(&all, info.ModTime())
		return ctx.Err() == nil
	})
	if err == nil {
		k.last.router = all
	}
	return err
}

// countNotices counts the notices in postman/ that nobody got. An administrator reads and
// removes them.
func (k *kept) countNotices() error {
	var all mailq.Kept
	err := eachFile(filepath.Join(k.postoffice, "postman"), func(name string, at time.Time) {
		if strings.HasSuffix(name, ctlfile.NoticeSuffix) && isOldest(&all, at) {
			all.Reason = "the sender is null, or a notice had no route; read and remove postman/" + name
		}
	})
	if err == nil {
		k.last.notices = all
	}
	return err
}

// countQuarantine counts the messages in corrupt/ and the submissions in corrupt/router/, where the
// router moves what it cannot read.
func (k *kept) countQuarantine(ctx context.Context) error {
	var all mailq.Kept
	err := k.files.EachQuarantined(ctx, func(m *spool.Stored) {
		if isOldest(&all, m.ModifiedAt) {
			all.Reason = m.Reason
		}
	})
	if k.postoffice != "" && err == nil {
		dir := filepath.Join(k.postoffice, "corrupt/router")
		err = eachFile(dir, func(name string, at time.Time) {
			if isOldest(&all, at) {
				text, _ := os.ReadFile(filepath.Join(dir, name+".reason"))
				_, reason, _ := strings.Cut(string(text), "\n")
				all.Reason = mailq.LastReply(reason)
			}
		})
	}
	if err == nil {
		k.last.quarantined = all
	}
	return err
}

// eachFile calls f with each file of a directory whose name begins with a digit,
// except for the reasons in quarantine. A directory that does not exist is empty.
func eachFile(dir string, f func(name string, modified time.Time)) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name := entry.Name()
		if name[0] < '0' || name[0] > '9' || strings.HasSuffix(name, ".reason") {
			continue
		}
		if info, err := entry.Info(); err == nil {
			f(name, info.ModTime())
		}
	}
	return err
}

// oldestOrder counts the threads that are held, with the time and the reason of
// the oldest order.
func oldestOrder(list []view.HeldThread) mailq.Kept {
	kept := mailq.Kept{Count: len(list)}
	for _, t := range list {
		if !t.Since.IsZero() && (kept.OldestAt.IsZero() || t.Since.Before(kept.OldestAt)) {
			kept.OldestAt, kept.Reason = t.Since, t.Because
		}
	}
	return kept
}
