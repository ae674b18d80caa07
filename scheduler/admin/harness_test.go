package admin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
)

// harness is a loop with a Server.
type harness struct {
	*daemontest.Harness
	t       *testing.T
	options Options
	server  *Server // made by Run
	loading bool    // Run does not say that all mail is loaded
	records unreadFiles
}

func newHarness(t *testing.T, set func(*rule.Params)) *harness {
	h := &harness{Harness: daemontest.New(t, set), t: t}
	h.Options.Dump = func() { h.server.Dump() }
	return h
}

// Run starts the loop and makes the server.
func (h *harness) Run() {
	h.Harness.Run()
	if !h.loading {
		h.Spool.Answer(spool.Swept{})
	}
	o := h.options
	o.Port, o.Files, o.Log = h.Daemon, memoryFiles{h.Spool, &h.records}, h.Options.Log
	h.server = New(o)
}

func (h *harness) queue() *Queue { return h.server.Queue() }

// memoryFiles reads the control files of a spool in memory.
type memoryFiles struct {
	*daemontest.Spool
	records *unreadFiles
}

func (s memoryFiles) Show(id string) (*spool.Stored, error) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for place, files := range []map[string]*daemontest.File{s.Files, s.Held} {
		for _, f := range files {
			n := f.Loaded.Name.ID
			if id == fmt.Sprint(n) || id == ctlfile.SpoolID(n, f.Loaded.ModifiedAt) {
				return stored(f, spool.Place(place)), nil
			}
		}
	}
	return nil, nil
}

func (s memoryFiles) Unloaded() map[string]spool.Unloaded { return s.records.unloaded }

func (s memoryFiles) EachQuarantined(context.Context, func(*spool.Stored)) error {
	time.Sleep(s.records.slow)
	if s.records.unreadable {
		return errors.New("permission denied")
	}
	return nil
}

// unreadFiles are files that cannot be read or loaded.
type unreadFiles struct {
	unloaded   map[string]spool.Unloaded
	unreadable bool          // corrupt/ is
	slow       time.Duration // to look through corrupt/
}

// stored is the file as queries read it.
func stored(f *daemontest.File, place spool.Place) *spool.Stored {
	t := f.Loaded
	m := &spool.Stored{
		Place: place, Name: t.Name, Control: 300, Size: t.Size, ModifiedAt: t.ModifiedAt,
		File: &ctlfile.File{
			Name: t.Name.Path, MessageID: t.MessageID, ErrorTo: t.ErrorTo,
			Senders: []ctlfile.Sender{{Address: ctlfile.Address{Channel: "local", Host: "-", User: t.Sender}}},
		},
	}
	for _, to := range t.Recipients {
		m.File.Recipients = append(m.File.Recipients, ctlfile.Recipient{
			Offset: to.Offset, Tag: f.Tags[to.Offset],
			Address: ctlfile.Address{Channel: to.Channel, Host: to.Host, User: "u@" + to.Host},
		})
	}
	return m
}
