// Package xfer is the agent of the channel xfer, xfer(8): it moves mail to another node.
// The host of a recipient is the name of that node. A REROUTE to the channel has written
// what the recipient was before, its origin, into the control file.
//
//	job line ──► session: reads the control file, locks the recipients
//	                │ PUSH                          ┌─► reply
//	                ▼                               │
//	           link to the node: one connection, many pushes at once
//	                                                │
//	             session: d line that is marked as reported, one sync for many
//	                      sessions, report, tag '+'
//	                                                │
//	             confirmer: when the tags are on disk, DONE
//
// The session locks a recipient until the node has answered that it has it on its disk.
// If the agent dies, the scheduler gives the recipient to another agent, and the node
// answers the repeated push without taking it twice.
package xfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
	"zsched/xfer"
)

// Agent is the agent. Its Deliver goes into a ta.Server, as does its Sync.
type Agent struct {
	Node        string // the name of this node
	Nodes       func() ([]xfer.Node, error)
	Credentials xfer.Credentials
	// Dir is the transport directory; "": the current one.
	Dir string
	// ReplyTimeout is how long a node may take to answer a push.
	ReplyTimeout time.Duration
	Warn         func(line string) // for the scheduler's log

	mu        sync.Mutex
	links     map[string]*link // by node
	confirmer confirmer
	syncs     *groupSync
}

// New returns an agent, which Close ends.
func New(a *Agent) *Agent {
	a.links, a.syncs = make(map[string]*link), newGroupSync()
	if a.ReplyTimeout == 0 {
		a.ReplyTimeout = 10 * time.Minute
	}
	a.confirmer.agent = a
	a.confirmer.start()
	return a
}

// Sync makes a control file durable, together with those of other sessions.
func (a *Agent) Sync(fd int) error { return a.syncs.sync(fd) }

// Deliver pushes one message to its node.
func (a *Agent) Deliver(m *ta.Message) {
	text, origins, err := controlFile(m)
	if err != nil {
		code := "4.3.0"
		if errors.Is(err, errNoOrigin) {
			code = xfer.StatusNoOrigin
		}
		m.ReportRest(func(*ta.Recipient) ta.Result { return failed(code, err) })
		return
	}
	name := m.Recipients[0].RouteHost()
	reply, err := a.push(name, m, text)
	switch {
	case errors.Is(err, errConnect):
		m.Recipients[0].Report(unreachable(name, err))
		return
	case err != nil:
		m.ReportRest(func(*ta.Recipient) ta.Result { return failed("4.4.2", err) })
		return
	case reply.Code != xfer.Accepted:
		err := fmt.Errorf("node %s answers %d %s", name, reply.Code, reply.Text)
		m.ReportRest(func(*ta.Recipient) ta.Result { return failed(statusOf(reply.Code), err) })
		return
	}
	a.accepted(m, name, reply, origins)
}

// accepted reports the recipients that a node has taken, and those that it refused.
func (a *Agent) accepted(m *ta.Message, name string, reply xfer.Reply, origins []ctlfile.Origin) {
	a.syncs.arrived()
	var sent map[int64]int64
	if len(reply.Refused) > 0 {
		sent = sentOffsets(m)
	}
	m.ReportRest(func(r *ta.Recipient) ta.Result {
		// The reply names offsets in the control file that was sent.
		if sent != nil && slices.Contains(reply.Refused, sent[r.Offset]) {
			return failed(xfer.StatusRefused, fmt.Errorf("node %s refuses it: %s", name, reply.Text))
		}
		return ta.Result{
			Status: ta.OK3, Moved: true,
			Fields: ta.Fields{Action: "relayed", Code: "2.0.0", Remote: "x-node; " + name},
			Text:   "moved to " + name,
		}
	})
	if len(reply.Refused) == 0 {
		a.confirmer.add(name, m, origins)
	}
}

func failed(code string, why error) ta.Result {
	return ta.Result{
		Status: ta.Deferred,
		Fields: ta.Fields{Code: code, Diagnostic: "x-local; 450 (" + why.Error() + ")"},
		Text:   why.Error(),
	}
}

// unreachable is the result of a whole job line whose node cannot be reached.
func unreachable(name string, why error) ta.Result {
	r := failed("4.4.1", why)
	r.Status, r.Fields.Remote = ta.DeferAll, "x-node; "+name
	return r
}

// statusOf returns the status code of a message that a node does not take, by its reply.
func statusOf(code int) string {
	switch code {
	case xfer.Refused:
		return xfer.StatusRefused
	case xfer.TooLarge:
		return xfer.StatusTooLarge
	}
	return "4.5.0"
}

// errNoOrigin is the error of a recipient that was not moved by mailq move.
var errNoOrigin = errors.New("mail is moved with mailq move, not by a route to channel xfer")

// controlFile returns the control file of the recipients that are moved, and their
// origins. A recipient without an origin has not come through a REROUTE to channel xfer:
// the node would not know where it is to go.
func controlFile(m *ta.Message) (text []byte, origins []ctlfile.Origin, err error) {
	c, err := contents(m)
	if err != nil {
		return nil, nil, err
	}
	for i := range m.Recipients {
		from, err := ctlfile.ParseOrigin(m.Recipients[i].Origin)
		if err == nil && from.Channel == "" {
			err = errors.New("it says nothing about the channel and host")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", errNoOrigin, err)
		}
		origins = append(origins, from)
	}
	if text, err = c.Encode(); err == nil && len(text) > xfer.MaxControl {
		err = fmt.Errorf("a control file of %d bytes is too large to be moved", len(text))
	}
	return text, origins, err
}

func contents(m *ta.Message) (*ctlfile.Contents, error) {
	if m.File.Body < 0 {
		return nil, errors.New("the control file does not say where the body starts")
	}
	chosen := make([]int, len(m.Recipients))
	for i := range m.Recipients {
		chosen[i] = m.Recipients[i].Index()
	}
	c := m.File.Extract(chosen)
	c.Name, c.HostLists = "1", true
	return c, nil
}

// sentOffsets returns, for the offset of each recipient here, that in the control file
// that was sent.
func sentOffsets(m *ta.Message) map[int64]int64 {
	sent := make(map[int64]int64)
	text, _, err := controlFile(m)
	if err != nil {
		return sent
	}
	f, err := ctlfile.Parse(text)
	for i := 0; err == nil && i < len(f.Recipients); i++ {
		sent[m.Recipients[i].Offset] = f.Recipients[i].Offset
	}
	return sent
}

// errConnect says that there is no connection to a node.
var errConnect = errors.New("no connection")

// push sends a message to a node and waits for the reply. If a connection that was used
// before turns out to be closed, it tries once more with a new one.
func (a *Agent) push(name string, m *ta.Message, text []byte) (xfer.Reply, error) {
	for {
		l, used, err := a.link(name)
		if err != nil {
			return xfer.Reply{}, fmt.Errorf("%w to node %s: %w", errConnect, name, err)
		}
		reply, err := l.push(m, text, a.ReplyTimeout)
		if err == nil || errors.Is(err, errLocal) {
			return reply, err
		}
		a.drop(name, l)
		if !used {
			return reply, fmt.Errorf("node %s: %w", name, err)
		}
	}
}

// link returns the connection to a node, and whether it was used before.
func (a *Agent) link(name string) (l *link, used bool, err error) {
	a.mu.Lock()
	l = a.links[name]
	used = l != nil
	if l == nil {
		l = &link{ready: make(chan struct{}), syncs: a.syncs}
		a.links[name] = l
	}
	a.mu.Unlock()
	if used {
		<-l.ready
		err := l.failure()
		if err == nil || l.conn == nil {
			return l, true, err
		}
		// It was open and has ended since, perhaps because it was idle.
		a.drop(name, l)
		return a.link(name)
	}
	defer close(l.ready)
	if err := a.open(l, name); err != nil {
		l.fail(err)
		a.drop(name, l)
		return nil, false, err
	}
	return l, false, nil
}

func (a *Agent) open(l *link, name string) error {
	nodes, err := a.Nodes()
	if err != nil {
		return err
	}
	node, known := xfer.FindNode(nodes, name)
	if !known {
		return errors.New("it is not in the table of nodes")
	}
	if strings.EqualFold(name, a.Node) {
		return errors.New("it is this node")
	}
	conn, err := xfer.Dial(context.Background(), node, &a.Credentials)
	if err != nil {
		return err
	}
	return l.open(conn, a.Node)
}

// drop forgets a connection that failed.
func (a *Agent) drop(name string, l *link) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.links[name] == l {
		delete(a.links, name)
	}
}

// Close confirms what can be confirmed, and closes all connections.
func (a *Agent) Close() {
	a.confirmer.stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.links {
		<-l.ready
		l.close()
	}
}
