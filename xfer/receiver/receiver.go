package receiver

// The connections of other nodes.

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
	"zsched/xfer"
)

const (
	// maxBatch bounds the messages of a batch.
	maxBatch = 500
	// maxStrangers bounds the connections whose node is not known yet; more are closed.
	maxStrangers = 50
	// greetTimeout is how long a connection has to introduce its node.
	greetTimeout = time.Minute
	// idleTimeout is how long a connection may be silent after that.
	idleTimeout = 10 * time.Minute
	// writeTimeout is how long a node may take to read replies. Other nodes wait
	// meanwhile.
	writeTimeout = time.Minute
	// tempPrefix begins the names of messages that are being read, in queue/.tmp.
	tempPrefix = "xferd-"
)

// Receiver serves the connections of other nodes.
type Receiver struct {
	Node string // the name of this node
	// Nodes returns the table of nodes; only these may push.
	Nodes       func() ([]xfer.Node, error)
	Credentials xfer.Credentials
	Store       *Store
	// Log is told of connections that are refused or that break, and of faults of this node
	// (peer is ""). Several goroutines call it.
	Log func(peer string, err error)

	strangers chan struct{} // one for each connection whose node is not known yet
	arrivals  chan *arrival
}

// New returns r, whose Run and Serve are to be called.
func New(r *Receiver) *Receiver {
	r.strangers, r.arrivals = make(chan struct{}, maxStrangers), make(chan *arrival, maxBatch)
	return r
}

// Run is the committer, which takes the messages that are complete at the same time as one
// batch. It returns when ctx is done and no connection is served any more: Serve must have
// returned for all of them.
func (r *Receiver) Run(ctx context.Context) {
	if left := r.Store.left; len(left) > 0 {
		r.Log("", fmt.Errorf("a crash has left mail for which there is no room, or whose messages are out of sight; it is tried again: %v", left))
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		var batch []*arrival
		select {
		case first := <-r.arrivals:
			batch = append(batch, first)
		case <-second.C:
			r.Store.finishLeft()
			continue
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < maxBatch; {
			select {
			case next := <-r.arrivals:
				batch = append(batch, next)
			default:
				more = false
			}
		}
		if err := r.Store.take(batch); err != nil {
			r.Log("", err)
		}
		for _, a := range batch {
			close(a.taken)
		}
	}
}

// connection is the connection of one node.
type connection struct {
	net.Conn
	receiver *Receiver
	in       *bufio.Reader
}

// reply sends a line.
func (c *connection) reply(line string) {
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := io.WriteString(c.Conn, line+"\n"); err != nil {
		_ = c.Close() // which ends its reader
	}
}

// Serve serves one connection to its end. When ctx is done, it takes no further message,
// and answers those that it has.
func (r *Receiver) Serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	peer := conn.RemoteAddr().String()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	c, err := r.greet(ctx, conn)
	if err != nil {
		r.Log(peer, err)
		return
	}
	defer c.Close()
	for err == nil && ctx.Err() == nil {
		err = c.command()
	}
	if err != nil && !errors.Is(err, io.EOF) && ctx.Err() == nil {
		c.refuse(err)
		r.Log(peer, err)
	}
}

// refuse sends the reply that says why the connection ends.
func (c *connection) refuse(err error) {
	reply := xfer.Reply{Code: xfer.Later, Text: err.Error()}
	if errors.Is(err, xfer.ErrLine) {
		reply.Code = xfer.Refused
	}
	c.reply(reply.String())
}

// greet secures a connection and finds out which node has opened it.
func (r *Receiver) greet(ctx context.Context, conn net.Conn) (*connection, error) {
	select {
	case r.strangers <- struct{}{}:
		defer func() { <-r.strangers }()
	default:
		return nil, fmt.Errorf("more than %d connections have not introduced their node", maxStrangers)
	}
	secured, verify, err := xfer.Accept(ctx, conn, &r.Credentials)
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: secured, receiver: r, in: bufio.NewReaderSize(&idleReader{ctx, secured}, xfer.MaxLine)}
	late := time.AfterFunc(greetTimeout, func() { _ = secured.Close() })
	nodes, err := r.Nodes()
	if err == nil {
		err = xfer.AwaitGreeting(secured, c.in, r.Node, verify, nodes)
	}
	if !late.Stop() && err != nil {
		err = fmt.Errorf("the node has not introduced itself within %v: %w", greetTimeout, err)
	}
	if err != nil {
		c.refuse(err)
		_ = secured.Close()
	}
	return c, err
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

// command carries out one command. An error ends the connection, because it is not known
// where the next command begins.
func (c *connection) command() error {
	line, err := xfer.ReadLine(c.in)
	if err != nil {
		return err
	}
	if line == "QUIT" {
		return io.EOF
	}
	push, err := xfer.ParsePush(line)
	if err != nil {
		return err
	}
	a := &arrival{taken: make(chan struct{}), reply: xfer.Reply{Tag: push.Tag}}
	// The memory grows with what arrives, not with what is announced.
	text, err := io.ReadAll(io.LimitReader(c.in, push.Control))
	if err == nil && int64(len(text)) < push.Control {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("reading a control file: %w", err)
	}
	message, fault := postoffice.CreateTemp(c.receiver.Store.office, tempPrefix)
	to := &staging{file: message, err: fault}
	if _, err := io.CopyN(to, c.in, push.Message); err != nil {
		to.remove()
		return fmt.Errorf("reading a message: %w", err)
	}
	if to.err == nil {
		to.err = cmp.Or(message.SetTime(arrivedAt(push.ModifiedAt)), postoffice.ForArrivals.Check(c.receiver.Store.office))
	}
	parsed, bad := ctlfile.Parse(text)
	switch {
	case bad != nil:
		a.reply.Code, a.reply.Text = xfer.Refused, bad.Error()
	case to.err != nil:
		a.reply.Code, a.reply.Text = xfer.Later, to.err.Error()
	default:
		a.control, a.message = parsed, message
		c.receiver.arrivals <- a
		<-a.taken // its message is in the queue, or removed
		c.reply(a.reply.String())
		return nil
	}
	to.remove()
	c.reply(a.reply.String())
	return nil
}

// arrivedAt returns the time of a message file for the time at the other node. One that is
// still to come would keep the mail from expiring.
func arrivedAt(nanoseconds int64) time.Time {
	return postoffice.TimeOfCopy(time.Unix(0, min(nanoseconds, time.Now().UnixNano())))
}

// staging writes to a file until there is an error. It then empties the file, because the
// rest may come slowly, and drops the rest.
type staging struct {
	file *postoffice.File // nil: it could not be made
	err  error
}

func (s *staging) Write(b []byte) (int, error) {
	if s.err == nil {
		if _, s.err = s.file.Write(b); s.err != nil {
			_ = postoffice.Truncate(s.file.FD(), 0)
		}
	}
	return len(b), nil
}

func (s *staging) remove() {
	if s.file != nil {
		removeMessage(s.file)
	}
}

// removeMessage removes a message that is not taken.
func removeMessage(file *postoffice.File) {
	_ = file.Close()
	_ = postoffice.RemovePath(file.Name())
}
