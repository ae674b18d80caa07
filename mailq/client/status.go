package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"zsched/internal/process"
	"zsched/mailq"
)

// WriteStatus writes what option -s shows: how many files wait for the router
// and for the scheduler, and whether these two are running. local says that they
// run on this host; nothing is known about other hosts. The error is about a
// directory that cannot be read; the other lines are written all the same.
func (p *Postoffice) WriteStatus(out io.Writer, local bool) error {
	routed := p.count("router")
	fmt.Fprintf(out, "%s in %s/router/ directory: %s\n",
		mailq.Plural(routed.files, "entry", "entries"), p.Dir, p.router(routed.files, local))
	if deferred := p.count("deferred"); deferred.files > 0 {
		fmt.Fprintf(out, "%s deferred\n", mailq.Plural(deferred.files, "message", "messages"))
	}
	transport, queue := p.count("transport"), p.count("queue")
	fmt.Fprintf(out, "%s in %s/transport/ directory: %s",
		mailq.Plural(transport.files, "message", "messages"), p.Dir, p.scheduler(transport.files, local))
	if transport.core {
		fmt.Fprint(out, " (core exists)")
	}
	fmt.Fprintln(out)
	if queue.err == nil && queue.files != transport.files {
		fmt.Fprintf(out, "%s in %s/queue/ directory\n", mailq.Plural(queue.files, "message", "messages"), p.Dir)
	}
	if routed.err != nil {
		return routed.err
	}
	return transport.err
}

func (p *Postoffice) router(files int, local bool) string {
	alive, started := p.alive(".pid.router")
	switch {
	case !local:
		return "non-local"
	case !started:
		return "never started"
	case !alive && p.newer("router/core", ".pid.router"):
		return "core dumped"
	case !alive:
		return "no daemon"
	case files > 0:
		return "processing"
	}
	return "idle"
}

func (p *Postoffice) scheduler(files int, local bool) string {
	alive, started := p.alive(".pid.scheduler")
	switch {
	case !local:
		return "non-local"
	case !started && files > 0:
		return fmt.Sprintf(`never started "%s/transport" polluted`, p.Dir)
	case !started:
		return "never started"
	case !alive:
		return "no scheduler daemon"
	case files > 0:
		return "working"
	}
	return "idle"
}

// alive reports whether the process of a pid file exists, and whether there is a
// pid file with a pid at all.
func (p *Postoffice) alive(name string) (alive, started bool) {
	text, err := os.ReadFile(filepath.Join(p.Dir, name))
	if errors.Is(err, fs.ErrPermission) {
		// Only the scheduler's user can read the file. It exists, so the
		// scheduler probably runs.
		return true, true
	}
	if err != nil {
		return false, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 {
		return false, false
	}
	return process.Exists(pid), true
}

// EverActive reports whether a scheduler was ever started in this postoffice.
func (p *Postoffice) EverActive() bool {
	_, err := os.Stat(filepath.Join(p.Dir, ".pid.scheduler"))
	return err == nil
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

func (p *Postoffice) count(name string) counted {
	var c counted
	c.add(filepath.Join(p.Dir, name))
	return c
}

// add counts the names in a directory that begin with a digit.
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
			case name[0] >= '0' && name[0] <= '9':
				c.files++
			case name == "core":
				c.core = true
			case len(name) == 1 && name[0] >= 'A' && name[0] <= 'Z' && e.IsDir():
				c.add(filepath.Join(dir, name))
			}
		}
		if err != nil {
			return
		}
	}
}
