package client

// The state of router and scheduler (mailq -s): whether they run.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"zsched/internal/process"
	"zsched/internal/units"
)

// ErrDead says that the router or the scheduler is not running.
var ErrDead = &Error{Unavailable, errors.New("a daemon is not running")}

// WriteStatus writes what option -s shows: how many files wait for the router
// and for the scheduler, and whether these two are running. local says that they
// run on this host; nothing is known about other hosts. The error is about a
// directory that cannot be read; the other lines are written all the same. A directory that
// the user may not read is no error: its line says so. ErrDead says that the router or the
// scheduler has run here and is not running now, or that mail waits for a router that was never
// started.
func (p *Postoffice) WriteStatus(out io.Writer, local bool) error {
	routed := p.count("router")
	router, routerDead := p.router(routed.files, local)
	entries := units.Plural(routed.files, "entry", "entries")
	if routed.err != nil {
		entries, router = "an unknown number of entries", strings.ReplaceAll(router, "idle", "running")
	}
	fmt.Fprintf(out, "%s in %s/router/ directory%s: %s\n", entries, p.Dir, routed.denied(), router)
	if deferred := p.count("deferred"); deferred.files > 0 {
		fmt.Fprintf(out, "%s deferred\n", units.Plural(deferred.files, "message", "messages"))
	}
	transport, queue := p.count("transport"), p.count("queue")
	scheduler, schedulerDead := p.scheduler(transport.files, local)
	number := units.Plural(transport.files, "message", "messages")
	if transport.err != nil {
		number, scheduler = "an unknown number of messages", strings.ReplaceAll(scheduler, "idle", "running")
	}
	fmt.Fprintf(out, "%s in %s/transport/ directory%s: %s", number, p.Dir, transport.denied(), scheduler)
	if transport.core {
		fmt.Fprint(out, " (core exists)")
	}
	fmt.Fprintln(out)
	if queue.err == nil && queue.files != transport.files {
		fmt.Fprintf(out, "%s in %s/queue/ directory\n", units.Plural(queue.files, "message", "messages"), p.Dir)
	}
	var failed []error
	if routerDead || schedulerDead {
		failed = append(failed, ErrDead)
	}
	for _, c := range []*counted{&routed, &transport} {
		if c.denied() == "" {
			failed = append(failed, c.err)
		}
	}
	return errors.Join(failed...)
}

func (p *Postoffice) router(files int, local bool) (text string, dead bool) {
	if !local {
		return "non-local", false
	}
	alive, started := process.Daemon(p.Dir, "router")
	switch {
	case !started && files > 0:
		return "never started, so the mail is not routed", true
	case !started:
		return "never started", false
	case !alive && p.newer("router/core", ".pid.router"):
		return "core dumped", true
	case !alive:
		return "no daemon", true
	case files > 0:
		return "processing", false
	}
	return "idle", false
}

func (p *Postoffice) scheduler(files int, local bool) (text string, dead bool) {
	if !local {
		return "non-local", false
	}
	alive, started := process.Daemon(p.Dir, "scheduler")
	switch {
	case !started && !p.EverActive() && files > 0:
		return fmt.Sprintf(`never started "%s/transport" polluted`, p.Dir), false
	case !started && !p.EverActive():
		return "never started", false
	case !alive:
		return "no scheduler daemon", true
	case files > 0:
		return "working", false
	}
	return "idle", false
}

// EverActive reports whether a scheduler was ever started in this postoffice. When it
// stops, it removes its pid file and leaves its state (scheduler-state(5)).
func (p *Postoffice) EverActive() bool {
	for _, name := range []string{".pid.scheduler", ".scheduler.state"} {
		if _, err := os.Stat(filepath.Join(p.Dir, name)); err == nil {
			return true
		}
	}
	return false
}

func (p *Postoffice) newer(name, than string) bool {
	a, err := os.Stat(filepath.Join(p.Dir, name))
	if err != nil {
		return false
	}
	b, err := os.Stat(filepath.Join(p.Dir, than))
	return err == nil && a.ModTime().After(b.ModTime())
}

// counted is the number of messages in a directory of the postoffice and its hash
// directories.
type counted struct {
	files int
	core  bool
	err   error
}

// denied says that the user may not read a directory; "": he may.
func (c *counted) denied() string {
	if errors.Is(c.err, fs.ErrPermission) {
		return ", which you may not read"
	}
	return ""
}

func (p *Postoffice) count(name string) counted {
	var c counted
	c.add(filepath.Join(p.Dir, name))
	return c
}

// add counts the files in a directory whose names begin with a digit.
func (c *counted) add(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.err = err
		}
		return
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1000)
		for _, e := range entries {
			switch name := e.Name(); {
			case name[0] >= '0' && name[0] <= '9' && e.Type().IsRegular():
				c.files++
			case name == "core":
				c.core = true
			case len(name) == 1 && name[0] >= 'A' && name[0] <= 'Z' && e.IsDir():
				c.add(filepath.Join(dir, name))
			}
		}
		if err != nil {
			if err != io.EOF {
				c.err = err
			}
			return
		}
	}
}
