package router

// Power cuts that once lost mail, each with its own order of calls.

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/internal/testing/ledger"
	"zsched/internal/testing/memdisk"
	"zsched/scheduler/view"
)

// An order sends mail elsewhere, and the name of the copy does not become durable. The old
// files must not be removed then: the power fails when their removal is durable, and the
// copy is not.
func TestMailThatIsSentElsewhereSurvivesAPowerCut(t *testing.T) {
	loader := tables(t)
	for _, c := range []struct {
		verb  view.Verb
		fault memdisk.Faults
	}{
		{view.VerbRequeue, memdisk.Faults{Error: unix.EMFILE, At: "open router"}},
		{view.VerbRequeue, memdisk.Faults{Error: unix.EIO, At: "sync router"}},
		{view.VerbRequeue, memdisk.Faults{Error: unix.EIO, At: "sync"}},
		{view.VerbReroute, memdisk.Faults{Error: unix.EMFILE, At: "open transport"}},
		{view.VerbReroute, memdisk.Faults{Error: unix.EIO, At: "sync transport"}},
		{view.VerbReroute, memdisk.Faults{Error: unix.EIO, At: "sync"}},
	} {
		for after := range 6 {
			t.Run(fmt.Sprintf("%s, %v at %s, after %d", c.verb, c.fault.Error, c.fault.At, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newSimulation(t, loader, uint64(after), newFigures())
					defer postoffice.Mount(s.office, s.disk)()
					s.makeDirs()
					s.levels = 2 // the copy and the old message are in different directories
					c.fault.Probability = 1
					s.sendElsewhere(c.verb, c.fault, after)
					if t.Failed() {
						s.explain()
					}
				})
			})
		}
	}
}

// sendElsewhere gives an order for a message that is deferred. Before the fault begins, after
// calls like it succeed.
func (s *simulation) sendElsewhere(verb view.Verb, fault memdisk.Faults, after int) {
	m := s.machine()
	m.hinted = true
	if err := m.start(s.loader, rand.New(rand.NewPCG(1, 3))); err != nil {
		s.t.Fatal(err)
	}
	msg := &message{sender: "sender1@mx.example", to: []*ledger.Entry{{
		Address: "r1@h1.example", Sender: "sender1@mx.example", Fate: ledger.NeverEnds, Resent: true,
	}}}
	s.ledger.Add(msg.to[0])
	s.send(m, msg)
	time.Sleep(20 * time.Second) // until it is routed, found and deferred
	synctest.Wait()
	fault.After = after
	s.disk.SetFaults(fault)
	file := s.disk.Files("transport")[0]
	_ = m.order(verb, file, 0)
	time.Sleep(time.Second)
	synctest.Wait()
	s.disk.SetFaults(memdisk.Faults{})
	for _, dir := range []string{path.Dir(file), "queue" + strings.TrimPrefix(path.Dir(file), "transport")} {
		d, err := postoffice.OpenDirFile(s.office + "/" + dir)
		if err == nil {
			err = d.Sync()
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	s.disk.Cut()
	m.stop()
	s.disk.PowerOn(0)
	s.ledger.Close(s.survivors())
	s.settle()
}

// A power cut has undone the move of a message into queue/, and not that of its control file.
// The scheduler ends that control file, and the router takes the submission again, which has
// the same number. The scheduler must not remove its message file, however late it removes the
// other.
func TestMessageIsNotRemovedWithTheControlFileOfAnEarlierAttempt(t *testing.T) {
	loader := tables(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, loader, 1, newFigures())
		defer postoffice.Mount(s.office, s.disk)()
		s.makeDirs()
		s.levels = 0
		m := s.machine()
		m.hinted = true
		msg := &message{sender: "sender1@mx.example", to: []*ledger.Entry{{
			Address: "r1@h1.example", Sender: "sender1@mx.example", Fate: ledger.Delivers,
		}}}
		s.ledger.Add(msg.to[0])
		if err := m.byProgram(msg); err != nil {
			t.Fatal(err)
		}
		s.ledger.Accept(msg.addresses())
		number := path.Base(s.disk.Files("router")[0])
		earlier := ctlfile.Contents{Name: number, MessageID: "<1@mx.example>", Blocks: []ctlfile.HeaderBlock{{
			Envelopes: []ctlfile.Envelope{{
				Sender:     ctlfile.Address{Channel: "error", Host: "<>", User: "<>", Privilege: "0"},
				Recipients: []ctlfile.EnvelopeRecipient{{Address: ctlfile.Address{Channel: "local", Host: "sender1", User: "sender1@mx.example", Privilege: "65534"}, DSN: "NOTIFY=NEVER"}},
			}},
			Header: "Subject: x\n",
		}}}
		text, err := earlier.Encode()
		if err == nil {
			err = postoffice.WriteFile(postoffice.WorkingDir, path.Join(s.office, "transport", number), text, true)
		}
		if err == nil {
			err = m.start(loader, rand.New(rand.NewPCG(1, 3)))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer m.stop()
		s.disk.SetFaults(memdisk.Faults{Probability: 1, Error: unix.EROFS, At: "unlink queue"})
		time.Sleep(5 * time.Minute)
		s.disk.SetFaults(memdisk.Faults{})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		for _, why := range s.ledger.Unkept() {
			t.Error(why)
		}
		if t.Failed() {
			s.explain()
		}
	})
}

// The first start makes hold/ and hold/orders and ends before they are on disk. The next start
// finds them, and an order that holds a thread must survive a power cut.
func TestHoldSurvivesAPowerCutAfterAStartThatFailed(t *testing.T) {
	loader := tables(t)
	for after := range 3 { // hold/transport, hold/queue, hold/orders
		synctest.Test(t, func(t *testing.T) {
			s := newSimulation(t, loader, 1, newFigures())
			defer postoffice.Mount(s.office, s.disk)()
			s.makeDirs()
			s.disk.SetFaults(memdisk.Faults{Probability: 1, Error: unix.ENOSPC, At: "sync hold", After: after})
			m := s.machine()
			if m.start(loader, rand.New(rand.NewPCG(1, 3))) == nil {
				t.Error("hold/ is not on disk, and the scheduler started")
			}
			m.stop()
			s.disk.SetFaults(memdisk.Faults{})
			if m = s.machine(); m.start(loader, rand.New(rand.NewPCG(1, 3))) != nil {
				t.Fatal("the second start failed")
			}
			if err := m.thread(view.VerbHold, "h1.example", 0); err != nil {
				t.Fatal(err)
			}
			s.held["h1.example"] = true
			s.disk.Cut()
			m.stop()
			s.disk.PowerOn(0)
			s.checkHeldThreads()
			if t.Failed() {
				s.explain()
			}
		})
	}
}
