package router

// Hints to the router and the scheduler of the simulated machine, in place of inotify.

import (
	"path"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"zsched/ctlfile"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// hintedSpool is a spool that also announces the names which hints sends.
type hintedSpool struct {
	*spool.Spool
	found chan []spool.Name
}

func (s *hintedSpool) Found() <-chan []spool.Name { return s.found }

// hint returns the spool as the scheduler has it. If m.hinted is set, names that appear in
// router/ and transport/ are announced within a second, as with inotify, which no fault of
// the disk affects.
func (m *machine) hint() daemon.Spool {
	if !m.hinted {
		return m.spool
	}
	s := &hintedSpool{m.spool, make(chan []spool.Name)}
	m.all.Go(func() {
		known := map[string]bool{}
		for {
			select {
			case <-m.ctx.Done():
				return
			case names := <-m.spool.Found():
				s.send(m, names)
			case <-time.After(time.Second):
				s.send(m, m.appeared(known))
			}
		}
	})
	return s
}

func (s *hintedSpool) send(m *machine, names []spool.Name) {
	if len(names) == 0 {
		return
	}
	select {
	case s.found <- names:
	case <-m.ctx.Done():
	}
}

// appeared tells the router of the names that have appeared in router/, and returns those in
// transport/. known are the names that were there before.
func (m *machine) appeared(known map[string]bool) (names []spool.Name) {
	here := map[string]bool{}
	for _, dir := range []string{"router", "transport"} {
		for _, file := range m.disk.Files(dir) {
			here[file] = true
			id, isControl := ctlfile.Number(path.Base(file))
			if known[file] || !isControl || strings.Contains(file, "/.") {
				continue
			}
			if dir == "transport" {
				names = append(names, spool.Name{Path: file[len("transport/"):], ID: id})
				continue
			}
			select {
			case m.newMail <- fsnotify.Event{Name: path.Join(m.office, file), Op: fsnotify.Create}:
			default: // the router sweeps
			}
		}
	}
	clear(known)
	for file := range here {
		known[file] = true
	}
	return names
}
