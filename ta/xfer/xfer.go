// Package xfer is the agent of the channel xfer, xfer(8): it moves mail to another node.
// The host of a recipient is the name of that node. An order to move has written what the
// recipient was before, its origin, into the control file.
//
//	job line ──► session: reads the control file
//	                │ PUSH              ┌─► reply
//	                ▼                   │
//	             a connection to the node, which the session has alone
//	                                    │
//	             session: reports each recipient
//
// If the agent dies before it has reported, the scheduler gives the recipient to another
// agent, and the node answers the repeated push without taking it twice.
package xfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
	"zsched/xfer"
)

// Agent is the agent. Its Deliver goes into a ta.Server.
type Agent struct {
	Node        string // the name of this node
	Nodes       func() ([]xfer.Node, error)
	Credentials xfer.Credentials
	// ReplyTimeout is how long a node may take to answer a push.
	ReplyTimeout time.Duration

	opening chan struct{} // has an element for each connection that is being opened

	mu   sync.Mutex
	idle map[string][]*link // by node
}

// maxOpening bounds the connections that are opened at once: a node closes some if more than
// fifty have not introduced theirs.
const maxOpening = 10

// New returns an agent, which Close ends.
func New(a *Agent) *Agent {
	a.idle, a.opening = make(map[string][]*link), make(chan struct{}, maxOpening)
	if a.ReplyTimeout == 0 {
		a.ReplyTimeout = 10 * time.Minute
	}
	return a
}

// The status codes (RFC 3463) of reports.
const (
	statusUnreachable = "4.4.1" // there is no connection to the node
	statusBroken      = "4.4.2" // the connection was lost
	statusLater       = "4.5.0" // the node did not take the message for now
	statusRefused     = "4.7.1" // somebody has to change something first
	statusUnreadable  = "4.3.0" // the message cannot be read here
)

// Deliver pushes one message to its node.
func (a *Agent) Deliver(m *ta.Message) {
	text, err := controlFile(m)
	if err != nil {
		report(m, failed(statusUnreadable, err))
		return
	}
	name := m.Recipients[0].RouteHost()
	reply, err := a.push(name, m, text)
	switch {
	case errors.Is(err, errConnect):
		r := failed(statusUnreachable, err)
		r.Status, r.Fields.Remote = ta.DeferAll, "x-node; "+name
		m.Recipients[0].Report(r)
	case err != nil:
		report(m, failed(statusBroken, err))
	case reply.Code == xfer.Accepted:
		// The other node notifies the sender.
		report(m, ta.Result{
			Status: ta.OK3,
			Fields: ta.Fields{Action: "relayed", Code: "2.0.0", Remote: "x-node; " + name},
			Text:   "moved to " + name,
		})
	default:
		code := statusLater
		if reply.Code == xfer.Refused {
			code = statusRefused
		}
		report(m, failed(code, fmt.Errorf("node %s answers %d %s", name, reply.Code, reply.Text)))
	}
}

// report reports all recipients.
func report(m *ta.Message, r ta.Result) { m.ReportRest(func(*ta.Recipient) ta.Result { return r }) }

func failed(code string, why error) ta.Result {
	return ta.Result{
		Status: ta.Deferred,
		Fields: ta.Fields{Code: code, Diagnostic: "x-local; 450 (" + why.Error() + ")"},
		Text:   why.Error(),
	}
}

// controlFile returns the control file of the recipients that are moved. A recipient without
// an origin was not moved by an order: the node would not know where it is to go.
func controlFile(m *ta.Message) (text []byte, err error) {
	if m.File.Body < 0 {
		return nil, errors.New("the control file does not say where the body starts")
	}
	chosen := make([]int, len(m.Recipients))
	for i := range m.Recipients {
		chosen[i] = m.Recipients[i].Index()
		if from, err := ctlfile.ParseOrigin(m.Recipients[i].Origin); err != nil || from.Channel == "" {
			return nil, errors.New("mail is moved with mailq move, not by a route to channel xfer")
		}
	}
	c := m.File.Extract(chosen)
	c.Name, c.HostLists = "1", true
	if text, err = c.Encode(); err == nil && len(text) > xfer.MaxControl {
		err = fmt.Errorf("a control file of %d bytes is too large to be moved", len(text))
	}
	return text, err
}

// errConnect says that there is no connection to a node.
var errConnect = errors.New("no connection")

// push sends a message to a node and waits for the reply. A connection that was used before may
// turn out to be closed; then another one is tried.
func (a *Agent) push(name string, m *ta.Message, text []byte) (xfer.Reply, error) {
	for {
		l := a.take(name)
		used := l != nil
		if !used {
			var err error
			if l, err = a.open(name); err != nil {
				return xfer.Reply{}, fmt.Errorf("%w to node %s: %w", errConnect, name, err)
			}
		}
		reply, err := l.push(m, text, a.ReplyTimeout)
		if err == nil || errors.Is(err, errLocal) {
			a.mu.Lock()
			a.idle[name] = append(a.idle[name], l)
			a.mu.Unlock()
			return reply, err
		}
		_ = l.conn.Close()
		if !used {
			return reply, fmt.Errorf("node %s: %w", name, err)
		}
	}
}

// take returns an idle connection to a node; nil: there is none.
func (a *Agent) take(name string) *link {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.idle[name]
	if len(all) == 0 {
		return nil
	}
	a.idle[name] = all[:len(all)-1]
	return all[len(all)-1]
}

// open opens a connection to a node.
func (a *Agent) open(name string) (*link, error) {
	nodes, err := a.Nodes()
	if err != nil {
		return nil, err
	}
	node, known := xfer.FindNode(nodes, name)
	if !known {
		return nil, errors.New("it is not in the table of nodes")
	}
	if strings.EqualFold(name, a.Node) {
		return nil, errors.New("it is this node")
	}
	a.opening <- struct{}{}
	defer func() { <-a.opening }()
	conn, err := xfer.Dial(context.Background(), node, &a.Credentials)
	if err != nil {
		return nil, err
	}
	return newLink(conn, a.Node)
}

// Close closes the connections that are not in use.
func (a *Agent) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, links := range a.idle {
		for _, l := range links {
			l.quit()
		}
	}
}
