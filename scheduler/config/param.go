package config

// The PARAMs: the parameters of the scheduler itself, and the table of their names.

import (
	"time"

	"zsched/internal/redisurl"
)

// Params are the parameters of the scheduler itself, which PARAM lines set.
type Params struct {
	// MailqSocks are the sockets of the query protocol (mailq(1)).
	MailqSocks Sockets
	// AuthFile is the path of the auth file, which says who may send which
	// queries; empty: none, and the scheduler uses version 1 of the protocol.
	AuthFile string
	// NotifySock is the socket at which routers announce new control files:
	// PARAMnotifysock, else SCHEDULERNOTIFY of zmailer.conf. The zero value
	// means .scheduler.notify in the postoffice.
	NotifySock Socket
	// ReportInterval is the time between notices about a message that has open
	// recipients as well as failed ones.
	ReportInterval time.Duration
	// StoreErrorOnError keeps notices about messages with a null sender, which
	// cannot be sent, in postman/.
	StoreErrorOnError bool
	// AgentTimeout is the default of the keyword agent-timeout.
	AgentTimeout time.Duration
	// ActiveLimit and RecipientLimit are the maximum numbers of messages and
	// recipients in memory; 0: no limit.
	ActiveLimit, RecipientLimit int
	// Metrics is the socket of the metrics; the zero value means none.
	Metrics Socket
	// EventLog is the path of the event log, or UNIX: and the path of the socket
	// at which a program reads it; empty: none.
	EventLog string
	// SpoolMode is "keep" to leave the modes of transport/ and queue/ as they are.
	SpoolMode string
	// Node is the name of this node; empty: the host's name and the postoffice.
	Node string
	// Cluster is the address of the store of the cluster; nil: there is none.
	Cluster             *redisurl.Address
	ClusterPasswordFile string
	// Fence is the path of the command that makes sure that a node no longer runs;
	// empty: none.
	Fence string
	// XferNodes is the path of the table of nodes; empty: none.
	XferNodes string
	// Shares has the weights of senders and domains, and Replies the reply rules that come
	// after those of scheduler.cf.
	Shares  Shares
	Replies Replies
}

// params are all PARAMs.
var params = []row[Params]{
	{name: "mailqpath", atStart: true, aliases: []string{"mailqsock"}, preset: "TCP:174",
		kind:    sockets(func(v *Params) *Sockets { return &v.MailqSocks }, socketForm{port: mailqPort}),
		meaning: "sockets at which the scheduler answers queries"},
	{name: "authfile",
		kind:    path(func(v *Params) *string { return &v.AuthFile }),
		meaning: "file that says who may send which queries and orders"},
	{name: "notifysock", atStart: true,
		kind:    socket(func(v *Params) *Socket { return &v.NotifySock }, socketForm{local: true}),
		meaning: "socket at which routers announce new messages"},
	{name: "global-report-interval", preset: "5m",
		kind:    span(func(v *Params) *time.Duration { return &v.ReportInterval }, time.Second, year),
		meaning: "how often the failures so far of a message that still has open recipients are reported"},
	{name: "store-error-on-error", preset: "no",
		kind:    flag(func(v *Params) *bool { return &v.StoreErrorOnError }),
		meaning: "keep notices that cannot be sent"},
	{name: "agent-timeout", preset: "2h", zero: "no limit",
		kind:    span(func(v *Params) *time.Duration { return &v.AgentTimeout }, 0, year),
		meaning: "how long an agent may have open job lines without progress on any, unless its clause sets"},
	{name: "active-limit", preset: "0", zero: "no limit",
		kind:    count(func(v *Params) *int { return &v.ActiveLimit }, 0, 1000000000),
		meaning: "maximum number of messages in memory"},
	{name: "recipient-limit", preset: "0", zero: "no limit",
		kind:    count(func(v *Params) *int { return &v.RecipientLimit }, 0, 1000000000),
		meaning: "maximum number of recipients in memory"},
	{name: "metrics", atStart: true,
		kind:    socket(func(v *Params) *Socket { return &v.Metrics }, socketForm{host: "127.0.0.1"}),
		meaning: "socket of the HTTP server that serves metrics in Prometheus format"},
	{name: "event-log", atStart: true,
		kind:    path(func(v *Params) *string { return &v.EventLog }),
		meaning: "log to which the scheduler writes a line about each event of each message"},
	{name: "spool-mode", atStart: true, preset: "0750",
		kind:    oneOf(func(v *Params) *string { return &v.SpoolMode }, "0750", "keep"),
		meaning: "mode that a scheduler running as root gives to the directories transport, queue, hold, postman and corrupt"},
	{name: "node", atStart: true,
		kind:    text(func(v *Params) *string { return &v.Node }),
		meaning: "name of this node"},
	{name: "cluster", atStart: true,
		kind:    store(func(v *Params) **redisurl.Address { return &v.Cluster }),
		meaning: "Redis or Valkey server through which several nodes share limits"},
	{name: "cluster-password-file", atStart: true,
		kind:    path(func(v *Params) *string { return &v.ClusterPasswordFile }),
		meaning: "file with the password for the store"},
	{name: "fence", atStart: true,
		kind:    path(func(v *Params) *string { return &v.Fence }),
		meaning: "command that makes sure that another node is no longer running"},
	{name: "xfer-nodes",
		kind:    path(func(v *Params) *string { return &v.XferNodes }),
		meaning: "table of nodes"},
	{name: "shares",
		kind:    sharesFile(func(v *Params) *Shares { return &v.Shares }),
		meaning: "file of the weights of senders and domains"},
	{name: "replies",
		kind:    repliesFile(func(v *Params) *Replies { return &v.Replies }),
		meaning: "file of reply rules"},
}
