package admin

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler/view"
)

// Peers that come in thousands do not fill the log; orders are all there.
func TestLogLinesOfPeersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		s := New(Options{Log: h.Options.Log})
		for range 1000 {
			s.note(server.Note{Kind: server.NoteFull, Peer: "192.0.2.1"})
			s.note(server.Note{Kind: server.NoteOrder, Order: &mailq.Order{Verb: view.VerbKill, Message: "7"}})
		}
		time.Sleep(time.Second)
		s.note(server.Note{Kind: server.NoteFull, Peer: "192.0.2.1"})
		log := h.Log.String()
		if n, orders := strings.Count(log, string(server.NoteFull)), strings.Count(log, "KILL MSG 7"); n != maxPerSecond+1 || orders != 1000 {
			t.Errorf("%d lines, and %d of orders", n, orders)
		}
		if !strings.Contains(log, `"unlogged":995`) {
			t.Error("how many are missing is not said")
		}
	})
}

// ETRN is for anybody who may connect. Neither its lines nor its texts fill the
// log.
func TestLogLinesOfETRNAreLimitedAndCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		s := New(Options{Log: h.Options.Log})
		for range 1000 {
			s.note(server.Note{Kind: server.NoteTrigger, User: "nobody", Host: strings.Repeat("h", 16_000), Text: strings.Repeat("t", 16_000)})
		}
		if n := strings.Count(h.Log.String(), "mail requested"); n != maxPerSecond || len(h.Log.String()) > 1000*maxPerSecond {
			t.Errorf("%d lines with %d bytes", n, len(h.Log.String()))
		}
	})
}

// A refused peer is no fault of the scheduler's.
func TestRefusalsAreNoWarnings(t *testing.T) {
	fault := errors.New("fault")
	for want, notes := range map[zerolog.Level][]server.Note{
		zerolog.InfoLevel: {
			{Kind: server.NoteLogin, Err: fault}, {Kind: server.NoteAccess}, {Kind: server.NoteRemote},
			{Kind: server.NoteFull}, {Kind: server.NoteGarbage, Err: fault}, {Kind: server.NoteOrder}, {Kind: server.NoteTrigger},
		},
		zerolog.WarnLevel: {
			{Kind: server.NoteOrder, Err: fault}, {Kind: server.NoteTrigger, Err: fault},
			{Kind: server.NoteQueue, Err: fault},
		},
		zerolog.DebugLevel: {
			{Kind: server.NoteOrder, Order: &mailq.Order{Verb: view.VerbKill, DryRun: true}},
			{Kind: server.NoteOrder, Order: &mailq.Order{Verb: view.VerbKill, DryRun: true}, Err: fault},
		},
		zerolog.ErrorLevel: {{Kind: server.NoteAuth, Err: fault}, {Kind: server.NoteFault, Err: fault}},
	} {
		for _, n := range notes {
			if got := level(&n); got != want {
				t.Errorf("%s with error %v is of level %v, want %v", n.Kind, n.Err, got, want)
			}
		}
	}
}

// Who gave which order, and why, is in the log.
func TestOrderIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, nil)
		s := New(Options{Log: h.Options.Log})
		s.note(server.Note{
			Kind: server.NoteOrder, User: "postmaster", Peer: "192.0.2.1",
			Order:   &mailq.Order{Verb: view.VerbKill, Message: "7", Because: "spam run"},
			Outcome: mailq.Outcome{Messages: 1, Recipients: 2, Threads: 1},
		})
		for _, want := range []string{`"user":"postmaster"`, `"peer":"192.0.2.1"`, `"order":"KILL MSG 7"`, `"because":"spam run"`, `"recipients":2`, `"message":"order"`} {
			if !strings.Contains(h.Log.String(), want) {
				t.Errorf("no %s in %s", want, h.Log)
			}
		}
		s.note(server.Note{Kind: server.NoteTrigger, User: "etrn", Peer: "192.0.2.2", Host: "a.example", Text: "192.0.2.9@mx", Started: true})
		if !strings.Contains(h.Log.String(), `"host":"a.example","request":"192.0.2.9@mx","started":true`) {
			t.Errorf("the log is %s", h.Log)
		}
	})
}
