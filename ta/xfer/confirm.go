package xfer

// Confirming: a node is told when the recipients that it has taken are tagged here, on
// disk, so that it need not remember their origins.

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/ta"
	"zsched/xfer"
)

const (
	// confirmPeriod is how often confirmations are sent, and how old a push has to
	// be: the scheduler tags the first control file about when it gives the copy to
	// the agent.
	confirmPeriod = 10 * time.Second
	// confirmLimit bounds the pushes that are remembered. The node forgets the
	// others when they are a week old.
	confirmLimit = 100000
	// confirmTries bounds how often the first control file is looked at.
	confirmTries = 30
)

// confirmer sends DONE for the recipients that were taken.
type confirmer struct {
	agent *Agent

	mu    sync.Mutex
	taken []takenPush

	stopping chan struct{}
	stopped  chan struct{}
}

// takenPush are the recipients of one message that a node has taken.
type takenPush struct {
	node    string
	origins []ctlfile.Origin
	path    string  // of the control file that was pushed
	offsets []int64 // of the recipients in it
	at      time.Time
	tries   int
}

func (c *confirmer) start() {
	c.stopping, c.stopped = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(c.stopped)
		ticker := time.NewTicker(confirmPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				c.confirm(time.Now().Add(-confirmPeriod))
			case <-c.stopping:
				c.confirm(time.Now())
				return
			}
		}
	}()
}

func (c *confirmer) stop() {
	close(c.stopping)
	<-c.stopped
}

func (c *confirmer) add(node string, m *ta.Message, origins []ctlfile.Origin) {
	p := takenPush{node: node, origins: origins, path: m.Job.Path, at: time.Now()}
	for i := range m.Recipients {
		p.offsets = append(p.offsets, m.Recipients[i].Offset)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taken) < confirmLimit {
		c.taken = append(c.taken, p)
	}
}

// confirm confirms pushes that were taken before a time.
func (c *confirmer) confirm(before time.Time) {
	c.mu.Lock()
	all := c.taken
	c.taken = nil
	c.mu.Unlock()
	var ready, later []takenPush
	for _, p := range all {
		switch {
		case p.at.After(before):
			later = append(later, p)
		case c.agent.tagged(&p):
			ready = append(ready, p)
		case p.tries < confirmTries:
			p.tries++
			later = append(later, p)
		}
	}
	if len(ready) > 0 && c.durable() == nil {
		for _, p := range ready {
			c.send(&p)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = append(later, c.taken...)
}

// durable makes all tags and removals durable.
func (c *confirmer) durable() error {
	dir := c.agent.Dir
	if dir == "" {
		dir = "."
	}
	file, err := postoffice.OpenDirFile(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.SyncAll()
}

// send sends one DONE for each message, over an open link. Without one the node forgets
// the origins when they are too old.
func (c *confirmer) send(p *takenPush) {
	a := c.agent
	a.mu.Lock()
	l := a.links[p.node]
	a.mu.Unlock()
	if l == nil {
		return
	}
	<-l.ready
	if l.failure() != nil {
		return
	}
	for _, d := range xfer.DoneWith(p.origins) {
		if err := l.done(d); err != nil {
			l.fail(err)
		}
	}
}

// tagged reports whether the recipients of a push are done in the control file that was
// pushed and in those in which they were first: these are gone, or have tagged them.
func (a *Agent) tagged(p *takenPush) bool {
	for _, offset := range p.offsets {
		if !a.doneIn(p.path, offset, false) {
			return false
		}
	}
	for _, from := range p.origins {
		if from.Node != a.Node {
			return false // that control file is on another node
		}
		number, ok := ctlfile.Number(strings.TrimPrefix(from.SpoolID, "S"))
		if !ok {
			return false
		}
		for levels := range 3 {
			name := ctlfile.HashDir(number, levels) + strconv.FormatUint(number, 10)
			for _, dir := range []string{"", "../hold/transport/", "../postman/transport/"} {
				if !a.doneIn(dir+name, from.Offset, from.Done != 0) {
					return false
				}
			}
		}
	}
	return true
}

// doneIn reports whether a control file has no open recipient at an offset and, if told is
// set, no d line about it that is still to be reported.
func (a *Agent) doneIn(name string, offset int64, told bool) bool {
	path := name
	if a.Dir != "" {
		path = filepath.Join(a.Dir, name)
	}
	if !postoffice.Exists(postoffice.WorkingDir, path) {
		return true
	}
	text, err := postoffice.ReadFile(postoffice.WorkingDir, path, ctlfile.MaxSize)
	if err != nil {
		return false
	}
	f, err := ctlfile.Parse(text)
	if err != nil {
		return false
	}
	for j := range f.Diagnostics {
		if d := &f.Diagnostics[j]; told && d.Recipient == offset && d.Tag == ctlfile.Open {
			return false
		}
	}
	i := f.Find(offset)
	return i < 0 || f.Done(i)
}
