// Package admin answers queries about the queue and carries out orders. It serves
// the sessions of the query protocol (mailq) at PARAMmailqsock.
//
//	mailq ── socket ──► server.Server ──► Queue ──► daemon.Port ──► the loop
//	                                       └─────► Files: control files, read here
//
// Each session runs in its own goroutine. It reaches the core through the port,
// with short functions: a list is read in slices, and a large order is given in
// parts. The session itself reads control files; the loop does not wait for that.
//
// queue.go has the lists and ETRN, message.go single messages, explain.go
// EXPLAIN, counters.go SHOW COUNTERS; order.go, targets.go, move.go and hold.go the
// orders; selection.go and notloaded.go what an order or a list is about; held.go SHOW HELD and SHOW
// RULES; kept.go the counts of mail that is kept back; log.go what is logged about sessions.
package admin

import (
	"context"
	"iter"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/logs"
	"zsched/mailq"
	"zsched/mailq/server"
	"zsched/scheduler"
	"zsched/scheduler/daemon"
	"zsched/scheduler/rule"
	"zsched/scheduler/spool"
)

// Files reads control files in the caller's goroutine; *spool.Spool is one.
type Files interface {
	All(ctx context.Context, p spool.Place) iter.Seq2[*spool.Stored, error]
	Show(ctx context.Context, id string) (*spool.Stored, bool, error)
	Quarantined(ctx context.Context) (count int, oldest *spool.Stored, err error)
	// Unloaded counts the control files that could not be loaded yet.
	Unloaded() spool.Unloaded
	// WhyUnloaded returns why each of these was refused, by its path.
	WhyUnloaded() map[string]string
	// These write and read hold records.
	RecordHold(r spool.HoldRecord) error
	EndHolds(end spool.HoldRecord) error
	HoldRecords() ([]spool.HoldRecord, error)
	DropHolds(number uint64, spoolIDs []string, threads bool) error
}

// Cluster is what is known of the cluster.
type Cluster interface {
	// Parts asks the store which node has which part of a limit.
	Parts(context.Context, scheduler.ClusterLimit) ([]mailq.ClusterLimit, error)
	// Show returns what this node knows of the store, the nodes and the limits.
	Show(ctx context.Context) ([]*mailq.ClusterItem, error)
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
	// Params writes parameters for EXPLAIN as a clause would set them: a
	// "name=value" for each. nil: EXPLAIN shows only what clauses set.
	Params func(rule.Params) []string
	// Nodes returns the names of the nodes to which mail may be moved, in lower
	// case; nil: there is no table of nodes. If it is nil, mail may be moved to any host
	// of channel xfer.
	Nodes    func() ([]string, error)
	OwnNames []string // the names of this node, in lower case
	Cluster  Cluster  // nil: there is none
	// MessageDir, ControlDir and LogDir are the directories whose free space
	// SHOW COUNTERS reports; "": not reported.
	MessageDir, ControlDir, LogDir string
}

// Server answers mailq sessions.
type Server struct {
	queue      *Queue
	server     *server.Server
	log        zerolog.Logger
	limit      logs.Throttle // on log lines that any peer can cause
	rendezvous string
	dumping    atomic.Bool // the rendezvous file is being written
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{
		queue: &Queue{
			holding: make(chan struct{}, 1),
			port:    o.Port, files: o.Files, params: o.Params, log: o.Log, nodes: o.Nodes, ownNames: o.OwnNames, cluster: o.Cluster,
			messageDir: o.MessageDir, controlDir: o.ControlDir, logDir: o.LogDir,
		},
		log: o.Log, limit: logs.Throttle{Number: maxPerSecond, Period: time.Second}, rendezvous: o.Rendezvous,
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
		s.log.Warn().Err(err).Msg("query not answered, because its peer is not known")
		return
	}
	s.server.Serve(ctx, conn, peer)
}

// Dump writes the queue to the rendezvous file (SIGUSR2). It does not wait.
func (s *Server) Dump() {
	if s.rendezvous == "" {
		return
	}
	if s.dumping.Swap(true) {
		return // the current dump is enough
	}
	go func() {
		defer s.dumping.Store(false)
		if err := s.server.Rendezvous(context.Background(), s.rendezvous); err != nil {
			s.log.Error().Err(err).Msg("the queue cannot be written to the rendezvous file")
			return
		}
		s.log.Info().Str("file", s.rendezvous).Msg("the queue was written to the rendezvous file")
	}()
}
