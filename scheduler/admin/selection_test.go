package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/mailq"
	"zsched/scheduler/spool"
)

// selected are the jobs that SHOW WHERE lists.
func (h *harness) selected(where string) (jobs []*mailq.JobLine) {
	h.t.Helper()
	what, err := mailq.ParseSelection(where)
	if err != nil {
		h.t.Fatal(err)
	}
	for job, err := range h.queue().Select(h.t.Context(), what) {
		if err != nil {
			h.t.Fatal(err)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

func TestSelectionsByWhatFilesSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("RETRY WHERE recipient=u@B.example DRYRUN", 2, 2, 1)
		h.want("RETRY WHERE recipient=u@b.example host=a.example DRYRUN", 0, 0, 0)
		h.want("RETRY WHERE younger=1d DRYRUN", 3, 4, 2)
		h.want("KILL WHERE message-id=* DRYRUN", 3, 4, 2)
		h.want("KILL WHERE message-id=<*> recipient=u@a.* DRYRUN", 2, 2, 1)
		h.want("KILL WHERE message-id=nobody@example DRYRUN", 0, 0, 0)
		h.Stop(syscall.SIGTERM)
	})
}

// Several threads are alternatives, and so are several messages. Everything else restricts
// the order.
func TestKindsOfSelectionRestrictEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		spoolID := h.selected("msg=1")[0].SpoolID
		h.want("KILL WHERE thread=SMTP/A.example DRYRUN", 2, 2, 1)
		h.want("KILL WHERE thread=smtp/a.example thread=smtp/b.example DRYRUN", 3, 4, 2)
		h.want("KILL WHERE thread=smtp/a.example host=b.example DRYRUN", 0, 0, 0)
		h.want("KILL WHERE thread=smtp/b.example message-id=* msg=2 msg=3 DRYRUN", 1, 1, 1)
		h.want("KILL WHERE msg=1 msg=2 DRYRUN", 2, 3, 2)
		h.want("KILL WHERE msg=S1other DRYRUN", 0, 0, 0)
		h.want("HOLD MSG 3", 1, 1, 1)
		h.want("KILL WHERE msg=3 state=held thread=smtp/a.example DRYRUN", 0, 0, 0)
		h.want("KILL WHERE msg=3 state=held thread=smtp/b.example DRYRUN", 1, 1, 1)
		h.want("HOLD THREAD smtp a.example", 2, 2, 1)
		h.want("RELEASE WHERE thread=smtp/a.example msg=3 DRYRUN", 0, 0, 0)
		h.want("KILL WHERE thread=smtp/a.example msg="+spoolID, 1, 1, 1)
		h.wantOutcome("KILL WHERE channel=* DRYRUN", mailq.Outcome{Messages: 3, Recipients: 3, Threads: 2})
		h.Stop(syscall.SIGTERM)
	})
}

// A RETRY tries nothing in held threads, and says so.
func TestRetryCountsWhatIsKeptBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD THREAD smtp a.example", 2, 2, 1)
		h.wantKeptBack("RETRY THREAD smtp a.example", 2)
		h.wantKeptBack("RETRY MSG 2 DRYRUN", 1)
		did, err := h.act("RETRY MSG 1 DRYRUN")
		if want := (mailq.Outcome{Messages: 1, Recipients: 1, Threads: 1, KeptBack: 1}); err != nil || did != want {
			t.Errorf("%+v, %v", did, err)
		}
		h.want("HOLD THREAD smtp b.example", 2, 2, 1)
		h.wantKeptBack("RETRY WHERE channel=smtp", 3)
		h.wantKeptBack("RETRY THREAD smtp b.example", 2)
		h.wantOutcome("RELEASE THREAD smtp b.example", mailq.Outcome{Messages: 2, Recipients: 2, Threads: 1})
		did, err = h.act("RETRY WHERE channel=smtp")
		if want := (mailq.Outcome{Messages: 2, Recipients: 2, Threads: 1, KeptBack: 2}); err != nil || did != want {
			t.Errorf("%+v, %v", did, err)
		}
		synctest.Wait()
		h.wantDelivered("b.example b.example")
		h.Stop(syscall.SIGTERM)
	})
}

// SHOW WHERE lists what an order with the same selection affects.
func TestSelectListsWhatAnOrderAffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 3", 1, 1, 1)
		for where, want := range map[string]string{
			"channel=smtp":                  "1 a.example, 1 b.example, 2 a.example, 3 b.example",
			"recipient=u@B.*":               "1 b.example, 3 b.example",
			"channel=smtp host=A.example":   "1 a.example, 2 a.example",
			"state=held":                    "3 b.example",
			"state=held recipient=nobody@*": "",
			"message-id=* host=a.*":         "1 a.example, 2 a.example",
			"older=3d":                      "",
		} {
			var got []string
			for _, job := range h.selected(where) {
				got = append(got, fmt.Sprintf("%d %s", job.Message, job.Host))
			}
			slices.Sort(got)
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("%s: %s, want %s", where, got, want)
			}
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestSelectionsByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("KILL WHERE state=waiting DRYRUN", 3, 4, 2)
		h.want("KILL WHERE state=due DRYRUN", 0, 0, 0)
		h.want("KILL WHERE state=held DRYRUN", 0, 0, 0)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.want("HOLD THREAD smtp b.example", 2, 2, 1)
		h.want("KILL WHERE state=waiting DRYRUN", 2, 2, 2)
		h.want("KILL WHERE state=held DRYRUN", 2, 3, 2)
		h.want("KILL WHERE state=held host=a.example DRYRUN", 1, 1, 1) // message 1 is for b.example, too
		h.want("RELEASE WHERE state=held DRYRUN", 3, 4, 2)
		h.want("KILL WHERE state=held recipient=u@*", 2, 3, 2)
		h.wantFiles(1, 0)
		h.Stop(syscall.SIGTERM)
	})
}

// A dry run of a release counts what the release counts. A held message in a held thread
// counts in both.
func TestReleaseCountsLikeItsDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.want("HOLD THREAD smtp b.example", 2, 2, 1)
		h.want("RELEASE WHERE state=held DRYRUN", 3, 4, 2)
		h.want("RELEASE WHERE state=held", 3, 4, 2)
		h.want("RELEASE WHERE state=held", 0, 0, 0)
		h.Stop(syscall.SIGTERM)
	})
}

// A release that selects nothing but mail of held threads counts what they keep back.
func TestReleaseOfMailThatIsHeldWithItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD THREAD smtp b.example", 2, 2, 1)
		h.wantKeptBack("RELEASE WHERE sender=rayan", 2)
		h.wantKeptBack("RELEASE WHERE sender=rayan state=held DRYRUN", 2)
		h.wantKeptBack("RELEASE WHERE thread=smtp/b.example recipient=u@b.example", 2)
		h.wantKeptBack("RELEASE MSG 3", 1)
		h.want("RELEASE MSG 2", 0, 0, 0)
		h.want("RELEASE WHERE host=a.example", 0, 0, 0)
		h.want("HOLD MSG 1", 1, 2, 2)
		h.want("RELEASE WHERE sender=rayan", 1, 2, 2)
		h.want("RELEASE WHERE channel=smtp", 2, 2, 1)
		h.Stop(syscall.SIGTERM)
	})
}

// The files of a message are held as a whole, with its mail for destinations that are not
// selected.
func TestHoldOfASelectionHoldsWholeMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		h.want("HOLD WHERE host=a.example", 2, 3, 1)
		h.wantFiles(1, 2)
		h.Stop(syscall.SIGTERM)
	})
}

// countedFiles counts how often files are read. Each takes a second.
type countedFiles struct {
	Files
	reads, atOnce atomic.Int32
	t             *testing.T
}

func (f *countedFiles) Show(id string) (*spool.Stored, error) {
	f.reads.Add(1)
	if f.atOnce.Add(1) > 1 {
		f.t.Error("several files are in memory")
	}
	time.Sleep(time.Second)
	f.atOnce.Add(-1)
	return f.Files.Show(id)
}

// A selection reads the file of each message once, also if the message is for many destinations, which
// others share. One file is read at a time, and a query does not wait when it is to end.
func TestSelectionsReadEachFileOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := loaded(t)
		files := &countedFiles{Files: h.queue().read.files, t: t}
		h.queue().read.files = files
		for i, order := range []string{
			"KILL WHERE recipient=nosuch@x DRYRUN", "HOLD WHERE message-id=nosuch@* DRYRUN",
			"RELEASE WHERE recipient=nosuch@x sender=rayan DRYRUN", "RETRY WHERE recipient=nosuch@x state=waiting DRYRUN",
		} {
			h.want(order, 0, 0, 0)
			if got := int(files.reads.Load()); got != 3*(i+1) {
				t.Errorf("%s: 3 files are read %d times", order, got-3*i)
			}
		}
		for range 3 {
			go func() {
				for range h.queue().Select(t.Context(), mailq.Selection{Recipient: "u@*"}) {
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for _, err := range h.queue().Select(ctx, mailq.Selection{Recipient: "*"}) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if ctx.Err() == nil || files.reads.Load() != 13 {
			t.Errorf("a query that is to end waits until %d files are read", files.reads.Load())
		}
		time.Sleep(time.Minute) // until the others are over
		h.Stop(syscall.SIGTERM)
	})
}
