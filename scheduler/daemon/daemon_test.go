package daemon_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"zsched/scheduler/daemon"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
	"zsched/ta"
)

func TestFreshMessageIsDeliveredAndRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Run()
		h.Spool.Announce(258367, "funet.fi", "utu.fi", "funet.fi")
		synctest.Wait()
		if n := h.Spool.Left(); n != 0 {
			t.Errorf("%d control files are left", n)
		}
		if took := h.Since(); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if got := strings.Count(h.Stats.String(), " ok2 smtp/"); got != 3 {
			t.Errorf("statistics are %q", h.Stats)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Three days pass in no time: a host that never takes its mail.
func TestUndeliverableMessageExpiresAfterThreeDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		tries := 0
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) {
			tries++
			a.ReportAll(job, ta.Deferred, "no route to host")
		}
		h.Run()
		h.Spool.Announce(1, "nowhere.example")
		time.Sleep(72*time.Hour - time.Second)
		synctest.Wait()
		if h.Spool.Left() != 1 {
			t.Error("it is gone too early")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("it has not expired")
		}
		if !strings.HasSuffix(h.Stats.String(), fmt.Sprintf(" %d expire smtp/nowhere.example\n", 72*60*60)) {
			t.Errorf("statistics are %q", h.Stats)
		}
		if tries < 100 {
			t.Errorf("only %d attempts", tries)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// The inode of a message is reused at once: its name is found while the old
// message is still being removed.
func TestReusedNumberIsTakenWhenItsMessageHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Slow = time.Second
		h.Spool.Finished = func() {
			h.Spool.Finished = func() {}
			h.Spool.Put(7, "b.example")
		}
		h.Run()
		h.Spool.Announce(7, "a.example")
		synctest.Wait() // delivered, being removed
		h.Spool.Names <- []spool.Name{{Path: "7", ID: 7}}
		synctest.Wait()
		if got := h.Spool.Takes(); got != 1 {
			t.Errorf("taken %d times while it was leaving", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := strings.Count(h.Stats.String(), "\n"); got != 2 || h.Spool.Left() != 0 {
			t.Errorf("%d recipients delivered, %d control files left", got, h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestNamesWaitWhileManyAreBeingTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, func(p *rule.Params) { p.MaxThr = 10 })
		h.Run()
		const total = 20 * daemon.MaxTaking
		for first := 0; first < total; first += 256 {
			var names []spool.Name
			for i := range 256 {
				names = append(names, h.Spool.Put(uint64(first+i+1), fmt.Sprintf("host%d.example", i)))
			}
			h.Spool.Names <- names
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Errorf("%d control files are left", h.Spool.Left())
		}
		if h.Spool.MaxTaking > daemon.MaxTaking+255 {
			t.Errorf("%d names were being taken at once", h.Spool.MaxTaking)
		}
		h.Stop(syscall.SIGTERM)
	})
}

func TestKnownNameIsNotTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Deliver = func(a *daemontest.FakeAgent, job ta.JobLine) { a.ReportAll(job, ta.Deferred, "later") }
		h.Run()
		h.Spool.Announce(5, "a.example")
		h.Spool.Names <- []spool.Name{{Path: "5", ID: 5}, {Path: "5", ID: 5}}
		synctest.Wait()
		h.Spool.Names <- []spool.Name{{Path: "5", ID: 5}}
		synctest.Wait()
		if got := h.Spool.Takes(); got != 1 {
			t.Errorf("taken %d times", got)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A spool that cannot be written stops the feeding; it is probed, and when it
// is back everything goes on.
func TestBrokenSpoolIsProbedUntilItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", syscall.EROFS))
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Announce(2, "b.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := strings.Count(h.Stats.String(), "\n"); n != 1 {
			t.Errorf("%d recipients were delivered", n)
		}
		h.Spool.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 || h.Spool.Probes < 10 {
			t.Errorf("%d control files are left after %d probes", h.Spool.Left(), h.Spool.Probes)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A fault of one file is that file's alone.
func TestFileThatCannotBeWrittenHindersNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "1", syscall.EACCES))
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Fail(fmt.Errorf("finishing %q: %w", "2", syscall.ENOSPC))
		h.Spool.Announce(2, "b.example")
		synctest.Wait()
		h.Spool.Announce(3, "b.example")
		synctest.Wait()
		if n := strings.Count(h.Stats.String(), "\n"); n != 3 {
			t.Errorf("%d recipients were delivered", n)
		}
		h.Spool.Fail(nil)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Errorf("%d control files are left", h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// A bad block under one file looks like a faulty disk, until a probe has succeeded and the file
// fails again. Then it is that file's alone.
func TestBadBlockOfAFileHindersNoOtherForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Spool.Bad = 1
		h.Run()
		h.Spool.Announce(1, "a.example")
		synctest.Wait()
		h.Spool.Announce(2, "b.example")
		synctest.Wait()
		if n := strings.Count(h.Stats.String(), "\n"); n != 1 {
			t.Errorf("%d recipients were delivered while the disk may be faulty", n)
		}
		time.Sleep(15 * time.Second) // for the probe
		for id := uint64(3); id < 100; id++ {
			h.Spool.Announce(id, "b.example")
			time.Sleep(time.Second)
			synctest.Wait()
			if n := strings.Count(h.Stats.String(), "\n"); n != int(id) {
				t.Fatalf("%d recipients were delivered, want %d", n, id)
			}
		}
		if h.Spool.Probes != 1 {
			t.Errorf("%d probes", h.Spool.Probes)
		}
		h.Spool.Mu.Lock()
		h.Spool.Bad = 0
		h.Spool.Mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Errorf("%d control files are left", h.Spool.Left())
		}
		h.Stop(syscall.SIGTERM)
	})
}

// However much the spool has to say at once, a turn deals with a piece of it.
func TestManyResultsAreDealtWithInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, func(p *rule.Params) { p.QueueOnly = true })
		d := daemon.New(h.Options)
		var all []spool.Result
		for i := range 3*daemon.MaxBatch + 1 {
			name := h.Spool.Put(uint64(i+1), "a.example")
			all = append(all, h.Spool.Files[name.Path].Loaded)
		}
		h.Spool.Answers <- all
		for turn := 1; turn <= 4; turn++ {
			d.Turn()
			if want := min(turn*daemon.MaxBatch, len(all)); d.Loaded() != want {
				t.Errorf("after turn %d %d messages have arrived, want %d", turn, d.Loaded(), want)
			}
		}
	})
}

// ETRN: a file in the spool asks for the mail of a host.
func TestTriggerStartsAThreadThatOnlyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, func(p *rule.Params) { p.QueueOnly = true })
		h.Run()
		h.Spool.Announce(1, "a.example")
		time.Sleep(time.Hour)
		synctest.Wait()
		if h.Spool.Left() != 1 {
			t.Error("it went out unasked")
		}
		h.Spool.Answer(spool.Triggered{Name: spool.Name{Path: "2-etrn", ID: 2}, Host: "a.example", Text: "a.example 192.0.2.1"})
		time.Sleep(time.Second)
		synctest.Wait()
		if h.Spool.Left() != 0 {
			t.Error("it was not delivered")
		}
		h.Stop(syscall.SIGTERM)
	})
}
