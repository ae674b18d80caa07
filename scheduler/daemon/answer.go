package daemon

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"zsched/mailq"
	"zsched/mailq/server"
)

// Queue is the daemon's queue as queries see it. It answers while Run runs.
func (d *Daemon) Queue() server.Queue { return queries{d} }

// answering is how queries are answered now.
func (d *Daemon) answering() server.Settings {
	s := d.Answering()
	s.Note = d.noteQuery
	return s
}

// serveMailq has one session.
func (d *Daemon) serveMailq(ctx context.Context, conn net.Conn) {
	peer, err := server.PeerOf(conn)
	if err != nil {
		d.Log.Warn().Err(err).Msg("a query from nobody is not answered")
		return
	}
	d.server.Serve(ctx, conn, peer)
}

// noteQuery logs what sessions did that an administrator may want to know. It
// is called by sessions.
func (d *Daemon) noteQuery(n server.Note) {
	unsaid, ok := d.restraint.speak(n.Kind, time.Now())
	if !ok {
		return
	}
	level, text := zerolog.WarnLevel, string(n.Kind)
	var order *mailq.Order
	switch n.Kind {
	case server.NoteOrder:
		order, level, text = n.Order, zerolog.InfoLevel, "order"
	case server.NoteTrigger:
		level, text = zerolog.InfoLevel, "mail asked for"
	case server.NoteAuth, server.NoteFault:
		level = zerolog.ErrorLevel
	}
	if n.Err != nil && level < zerolog.WarnLevel {
		level = zerolog.WarnLevel
	}
	line := d.Log.WithLevel(level).Str("user", n.User).Str("peer", n.Peer)
	if unsaid > 0 {
		line = line.Int("unlogged", unsaid)
	}
	if order != nil {
		line = line.Str("order", orderText(order)).Str("reason", order.Why).
			Int("messages", n.Outcome.Messages).Int("recipients", n.Outcome.Recipients).Int("threads", n.Outcome.Threads)
	}
	if n.Kind == server.NoteTrigger {
		line = line.Str("host", n.Host).Str("request", n.Text).Bool("started", n.Started)
	}
	line.Err(n.Err).Msg(text)
}

// orderText is the order without its reason.
func orderText(o *mailq.Order) string {
	bare := *o
	bare.Why = ""
	return strings.TrimSuffix(bare.String(), " BECAUSE")
}

// writeRendezvous writes the queue to the rendezvous file (SIGUSR2), outside
// of the loop.
func (d *Daemon) writeRendezvous() {
	if d.Rendezvous == "" || d.server == nil {
		return
	}
	if d.writing.Swap(true) {
		return // the one under way will do
	}
	go func() {
		defer d.writing.Store(false)
		if err := d.server.Rendezvous(context.Background(), d.Rendezvous); err != nil {
			d.Log.Error().Err(err).Msg("the queue cannot be written out")
			return
		}
		d.Log.Info().Str("file", d.Rendezvous).Msg("the queue is written out")
	}()
}
