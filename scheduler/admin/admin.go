// Package admin answers queries about the queue and carries out orders. It serves
// the sessions of the query protocol (mailq) at PARAMmailqsock.
//
//	mailq ── socket ──► server.Server ──► Queue ─┬─► reader ──► daemon.Port ──► the loop
//	                                             │      └─────► Files: control files, read here
//	                                             ├─► orders
//	                                             └─► kept
//
// Each session runs in its own goroutine. It reaches the core through the port,
// with short functions: a list is read in slices, and a large order is given in
// parts. The session itself reads control files; the loop does not wait for that.
//
// queue.go has the lists, message.go single messages, counters.go SHOW COUNTERS, reader.go the
// job lines that lists and orders are about; order.go and targets.go the orders, hold.go HOLD, RELEASE and
// LIFT, records.go the end of hold records; kept.go the counts of mail that is kept back; log.go what
// is logged about sessions.
package admin

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logs"
	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler/daemon"
	"zsched/scheduler/spool"
)

// Files reads control files in the caller's goroutine; *spool.Files is one.
type Files interface {
	Show(id string) (*spool.Stored, error)
	EachQuarantined(ctx context.Context, do func(*spool.Stored)) error
	// Unloaded returns the control files that could not be loaded yet, by path.
	Unloaded() map[string]spool.Unloaded
	// These write and read hold records.
	RecordHold(r spool.HoldRecord) error
	EndHolds(end spool.HoldRecord) error
	HoldRecords() ([]spool.HoldRecord, error)
	DropHolds(over spool.HoldRecord) error
}

// Options are the parameters of New. Port and Files must be set.
type Options struct {
	Port  daemon.Port
	Files Files
	Log   zerolog.Logger
	// Settings say how queries are answered; Note is set here.
	Settings server.Settings
	// Rendezvous is the file that Dump writes; "": none.
	Rendezvous string
	// Nodes returns the names of the nodes to which mail may be moved, in lower
	// case; nil: there is no table of nodes. If it is nil, mail may be moved to any host
	// of channel xfer.
	Nodes    func() ([]string, error)
	OwnNames []string // the names of this node, in lower case
	// Cluster returns what this node knows of the store, the nodes and the limits; nil: there is no
	// cluster.
	Cluster func(context.Context) ([]*mailq.ClusterItem, error)
	// Postoffice is where mail that is kept back is counted, and LogDir, MessageDir and ControlDir are
	// the directories whose free space SHOW COUNTERS reports; "": none.
	Postoffice, MessageDir, ControlDir, LogDir string
}

// Server answers mailq sessions.
type Server struct {
	queue   *Queue
	server  *server.Server
	options Options
	limit   logs.Throttle // on log lines that any peer can cause
	dumping atomic.Bool   // the rendezvous file is being written
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{options: o, limit: logs.Throttle{Number: maxPerSecond, Period: time.Second}}
	r := &reader{port: o.Port, files: o.Files, log: o.Log, reading: make(chan struct{}, 1)}
	s.queue = &Queue{
		options: &s.options, read: r,
		orders: orders{reader: r, nodes: o.Nodes, ownNames: o.OwnNames, holding: make(chan struct{}, 1)},
		kept:   kept{reader: r, postoffice: o.Postoffice},
	}
	o.Settings.Note = s.note
	s.server = server.New(s.queue, o.Settings)
	return s
}

// Configure changes how queries are answered, for sessions that begin later.
func (s *Server) Configure(settings server.Settings) {
	settings.Note = s.note
	s.server.Configure(settings)
}

// Queue is the queue that the sessions see.
func (s *Server) Queue() *Queue { return s.queue }

// Serve serves one session on a connection.
func (s *Server) Serve(ctx context.Context, conn net.Conn) {
	peer, err := server.PeerOf(conn)
	if err != nil {
		s.options.Log.Warn().Err(err).Msg("query not answered, because its peer is not known")
		return
	}
	s.server.Serve(ctx, conn, peer)
}

// Dump writes the queue to the rendezvous file (SIGUSR2). It does not wait.
func (s *Server) Dump() {
	file := s.options.Rendezvous
	if file == "" || s.dumping.Swap(true) { // the current dump is enough
		return
	}
	go func() {
		defer s.dumping.Store(false)
		if err := s.server.Rendezvous(context.Background(), file); err != nil {
			s.options.Log.Error().Err(err).Msg("the queue cannot be written to the rendezvous file")
			return
		}
		s.options.Log.Info().Str("file", file).Msg("the queue was written to the rendezvous file")
	}()
}
