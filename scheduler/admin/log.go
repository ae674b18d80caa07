package admin

// What is logged about sessions: no more than maxPerSecond lines of each kind that
// any peer can cause.

import (
	"strings"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/text"
	"zsched/mailq"
	"zsched/mailq/server"
)

const (
	// maxPerSecond is how many lines of one kind are logged in a second. A
	// flood of connections or ETRNs must not become a flood of log lines.
	maxPerSecond = 5
	// maxText is how many bytes are logged of a text that the peer chose.
	maxText = 200
)

// note logs what a session did, if an administrator may want to know. Sessions
// call it.
func (s *Server) note(n server.Note) {
	missing := 0
	if n.Kind != server.NoteOrder { // a peer that may give orders may fill the log
		ok := false
		if missing, ok = s.limit.Take(string(n.Kind), time.Now()); !ok {
			return
		}
	}
	line := s.options.Log.WithLevel(level(&n)).Str("user", text.CutMarked(n.User, maxText)).Str("peer", n.Peer)
	if missing > 0 {
		line = line.Int("unlogged", missing)
	}
	message := string(n.Kind)
	switch n.Kind {
	case server.NoteOrder:
		if n.Order.DryRun {
			message = "dry run of an order"
		}
		line = line.Str("order", orderText(n.Order)).Str("because", text.CutMarked(n.Order.Because, maxText)).
			Int("messages", n.Outcome.Messages).Int("recipients", n.Outcome.Recipients).Int("threads", n.Outcome.Threads)
	case server.NoteTrigger:
		line = line.Str("host", text.CutMarked(n.Host, maxText)).Str("request", text.CutMarked(n.Text, maxText)).Bool("started", n.Started)
		message = "mail requested"
	}
	line.Err(n.Err).Msg(message)
}

// level returns error if the scheduler or its auth file is at fault, warning if
// something failed, info if a peer was refused, and debug for a dry run, which is a question.
func level(n *server.Note) zerolog.Level {
	if n.Kind == server.NoteOrder && n.Order != nil && n.Order.DryRun {
		return zerolog.DebugLevel
	}
	switch n.Kind {
	case server.NoteAuth, server.NoteFault:
		return zerolog.ErrorLevel
	case server.NoteQueue:
		return zerolog.WarnLevel
	case server.NoteOrder, server.NoteTrigger:
		if n.Err != nil {
			return zerolog.WarnLevel
		}
	}
	return zerolog.InfoLevel
}

// orderText returns an order without its reason.
func orderText(o *mailq.Order) string {
	bare := *o
	bare.Because = ""
	return strings.TrimSuffix(bare.String(), " BECAUSE")
}
