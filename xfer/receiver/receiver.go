package receiver

// The connections of other nodes, and the committer, which takes what they push in
// batches.

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"zsched/ctlfile"
	"zsched/xfer"
)

const (
	// maxBatch bounds the messages of a batch.
	maxBatch = 1000
	// idleTimeout is how long a connection may be silent.
	idleTimeout = 10 * time.Minute
	// writeTimeout is how long a node may take to read replies. Other nodes wait
	// meanwhile.
	writeTimeout = time.Minute
)

// Receiver serves the connections of other nodes.
type Receiver struct {
	Store *Store
	Node  string // the name of this node
	// MinRate is how many bytes a second a node has to send at least while it pushes;
	// 0: any rate will do.
	MinRate int64
	// Nodes returns the table of nodes; only these may push.
	Nodes        func() ([]xfer.Node, error)
	Certificates *xfer.Certificates
	// Log is told of connections that are refused or that break. Several goroutines
	// call it.
	Log func(peer string, err error)

	strangers strangers
	peers     peers
	inFlight  inFlight
	arrivals  chan received
	done      chan xfer.Done
	questions chan question
}

// question is a Have, and where the answer goes.
type question struct {
	xfer.Have
	answer chan xfer.Reply
}

// received is a message that is complete, and where its reply goes.
type received struct {
	*arrival
	from *connection
}

// New returns a Receiver, whose Run and Serve are to be called.
func New(s *Store) *Receiver {
	return &Receiver{
		Store: s, arrivals: make(chan received, maxBatch), done: make(chan xfer.Done, maxBatch), questions: make(chan question),
	}
}

// Run is the committer. It returns when ctx is done and no connection is served any
// more: Serve must have returned for all of them.
func (r *Receiver) Run(ctx context.Context) {
	for token, err := range r.Store.stuck {
		r.Log("", fmt.Errorf("a message that was taken is not in the queue, but in %s/*-%s: %w", r.Store.controls, token, err))
	}
	for {
		select {
		case first := <-r.arrivals:
			r.commit(first)
		case done := <-r.done:
			r.forget(done)
		case q := <-r.questions:
			q.answer <- r.Store.taken(q.Have)
		case <-ctx.Done():
			for len(r.done) > 0 {
				r.forget(<-r.done)
			}
			return
		}
	}
}

// forget drops the origins that a node has confirmed.
func (r *Receiver) forget(done xfer.Done) {
	if r.Store.broken || r.Store.check() != nil {
		return
	}
	err := r.Store.origins.forget(done)
	if err == nil {
		err = r.Store.origins.compact()
	}
	if err != nil {
		r.Store.broken = true
		r.Log("", fmt.Errorf("forgetting origins: %w", err))
	}
}

// commit takes the messages that are complete now as one batch, and sends the replies.
func (r *Receiver) commit(first received) {
	batch := []received{first}
	for more := true; more && len(batch) < maxBatch; {
		select {
		case next := <-r.arrivals:
			batch = append(batch, next)
		default:
			more = false
		}
	}
	list := make([]*arrival, len(batch))
	for i, one := range batch {
		list[i] = one.arrival
	}
	for len(r.done) > 0 { // what is forgotten may make room for this batch
		r.forget(<-r.done)
	}
	r.Store.take(list)
	for _, one := range batch {
		r.Store.release(one.arrival)
		r.inFlight.end(one.from.node, one.arrival.push.Control)
		if errors.Is(one.err, errOrigins) {
			r.Log(one.from.RemoteAddr().String(), fmt.Errorf("a push of node %s is answered with 451: %w", one.from.node, one.err))
		}
		one.from.reply(one.arrival.reply.String())
	}
	for _, one := range batch {
		one.from.flush()
		one.from.pending.Done()
	}
}

// connection is the connection of one node.
type connection struct {
	net.Conn
	receiver *Receiver
	in       *bufio.Reader
	pending  sync.WaitGroup // messages that wait for the committer
	node     string         // the other node
	peer     xfer.Node      // the same, as it is in the table
	asks     bool           // it has sent a Have, and may not push

	mu  sync.Mutex
	out *bufio.Writer
}

func (c *connection) reply(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.WriteString(line + "\n") // flush returns the error
}

func (c *connection) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if c.out.Buffered() > 0 && c.out.Flush() != nil {
		_ = c.Close() // which ends its reader
	}
}

// answer sends a reply at once.
func (c *connection) answer(r xfer.Reply) {
	c.reply(r.String())
	c.flush()
}

// Serve serves one connection to its end. When ctx is done, it takes no further message,
// and answers those that it has.
func (r *Receiver) Serve(ctx context.Context, conn net.Conn) {
	peer := conn.RemoteAddr().String()
	defer conn.Close()
	ctx, interrupt := context.WithCancel(ctx)
	defer interrupt()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // see idleReader
	defer stop()
	unknown := r.strangers.enter(conn)
	defer unknown.leave()
	secured, verify, err := xfer.Accept(ctx, conn, r.Certificates)
	if err != nil {
		r.Log(peer, cmp.Or(unknown.leave(), err))
		return
	}
	c := &connection{Conn: secured, receiver: r, in: bufio.NewReaderSize(&idleReader{ctx, secured}, xfer.MaxLine), out: bufio.NewWriter(secured)}
	defer c.Close()
	defer r.peers.enter(c, interrupt)()
	err = c.greet(verify)
	if closed := unknown.leave(); closed != nil {
		r.Log(peer, closed)
		return
	}
	for err == nil && ctx.Err() == nil {
		err = c.command()
	}
	c.pending.Wait()
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		reply := xfer.Reply{Code: xfer.Later, Text: err.Error()}
		if errors.Is(err, xfer.ErrLine) || errors.Is(err, errUnknown) {
			reply.Code = xfer.Refused
		}
		c.answer(reply)
		r.Log(peer, err)
	}
}

// errUnknown says that a node may not push here.
var errUnknown = errors.New("this node does not take mail from it")

// greet finds out which node has opened the connection.
func (c *connection) greet(verify func(name string) error) error {
	c.reply(fmt.Sprintf("%d %s xfer %s", xfer.Greeting, c.receiver.Node, xfer.Version))
	c.flush()
	line, err := xfer.ReadLine(c.in)
	if err != nil {
		return err
	}
	name, version, err := xfer.ParseLHLO(line)
	if err != nil {
		return err
	}
	if err := xfer.CheckVersion(name, version); err != nil {
		return err
	}
	nodes, err := c.receiver.Nodes()
	if err != nil {
		return err
	}
	peer, known := xfer.FindNode(nodes, name)
	if !known {
		return fmt.Errorf("%w: %.200q is not in the table of nodes", errUnknown, name)
	}
	if err := verify(name); err != nil {
		return fmt.Errorf("%w: it says that it is %.200q: %w", errUnknown, name, err)
	}
	c.peer = peer
	c.receiver.peers.name(c, name)
	c.reply(fmt.Sprintf("%d %s", xfer.Accepted, c.receiver.Node))
	c.flush()
	return nil
}

// idleReader reads from a connection until that is silent for too long or ctx is done.
type idleReader struct {
	ctx  context.Context
	conn net.Conn
}

func (r *idleReader) Read(b []byte) (int, error) {
	_ = r.conn.SetReadDeadline(time.Now().Add(idleTimeout))
	if err := r.ctx.Err(); err != nil { // the deadline that ended the last read is overwritten
		return 0, err
	}
	return r.conn.Read(b)
}

// command carries out one command.
func (c *connection) command() error {
	line, err := xfer.ReadLine(c.in)
	if err != nil {
		return err
	}
	switch verb, _, _ := strings.Cut(line, " "); {
	case line == "QUIT":
		return io.EOF
	case verb == "DONE":
		done, err := xfer.ParseDone(line)
		if err != nil {
			return err
		}
		if err := mayPush(&c.peer, done.Node()); err != nil {
			c.receiver.Log(c.RemoteAddr().String(), fmt.Errorf("DONE is ignored: %w", err))
			return nil
		}
		c.receiver.done <- done
		return nil
	case verb == "HAVE":
		have, err := xfer.ParseHave(line)
		if err == nil {
			c.have(have)
		}
		return err
	}
	push, err := xfer.ParsePush(line)
	if err == nil && c.asks {
		err = fmt.Errorf("a push on a connection with questions: %w", xfer.ErrLine)
	}
	if err != nil {
		return err
	}
	return c.push(push)
}

// have answers which recipients are here. No others arrive later, because it first ends the
// connections on which the node pushes.
func (c *connection) have(have xfer.Have) {
	if err := mayPush(&c.peer, have.Node()); err != nil {
		c.answer(xfer.Reply{Code: xfer.Refused, Tag: have.Tag, Text: err.Error()})
		return
	}
	if !c.asks {
		c.receiver.peers.endPushes(c)
	}
	q := question{have, make(chan xfer.Reply, 1)}
	c.receiver.questions <- q
	c.answer(<-q.answer)
}

// push reads the files of one message and gives it to the committer. An error ends the
// connection, because it is not known where the next command begins.
func (c *connection) push(push xfer.Push) error {
	if refusal, ok := c.receiver.Store.admit(&push); !ok {
		in := paced(c.in, c.receiver.MinRate)
		c.answer(refusal)
		if err := skip(in, push.Control); err != nil {
			return err
		}
		return skip(in, push.Message)
	}
	c.receiver.inFlight.begin(c.node, push.Control)
	committing := false
	defer func() {
		if !committing {
			c.receiver.inFlight.end(c.node, push.Control)
		}
	}()
	in := paced(c.in, c.receiver.MinRate)
	// The memory grows with what arrives, not with what is announced.
	text, err := io.ReadAll(io.LimitReader(in, push.Control))
	if err == nil && int64(len(text)) < push.Control {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("reading a control file: %w", err)
	}
	control, parseErr := ctlfile.Parse(text)
	a, err := c.receiver.Store.create(push)
	if err != nil {
		if e := skip(in, push.Message); e != nil {
			return e
		}
		c.answer(xfer.Reply{Code: xfer.Later, Tag: push.Tag, Text: err.Error()})
		return nil
	}
	a.control, a.from = control, c.peer
	fileErr, err := c.receiver.Store.read(a, in)
	if err != nil {
		c.receiver.Store.discard(a)
		c.receiver.Store.release(a)
		return fmt.Errorf("reading a message: %w", err)
	}
	if fileErr == nil {
		fileErr = c.receiver.Store.complete(a)
	}
	if err := errors.Join(parseErr, fileErr); err != nil {
		c.receiver.Store.discard(a)
		c.receiver.Store.release(a)
		reply := xfer.Reply{Code: xfer.Later, Tag: push.Tag, Text: err.Error()}
		if parseErr != nil {
			reply.Code = xfer.Refused
		}
		c.answer(reply)
		return nil
	}
	c.pending.Add(1)
	committing = true
	c.receiver.arrivals <- received{a, c}
	return nil
}

// skip reads past files that are not taken.
func skip(in io.Reader, size int64) error {
	_, err := io.CopyN(io.Discard, in, size)
	return err
}
