package config

// The PARAMs.

import (
	"time"

	"zsched/internal/redisurl"
)

// Params are the parameters of the scheduler itself, which PARAM lines set. The tags are those of
// rule.Params. One with read:"at start" is read only when the scheduler starts. "" and the zero value
// of a socket mean none.
type Params struct {
	// Sockets at which the scheduler answers queries.
	MailqSocks []Socket `kind:"sockets" name:"mailqpath" also:"mailqsock" default:"TCP:174" read:"at start"`
	// File that says who may send which queries and orders. Without one, the scheduler uses
	// version 1 of the query protocol.
	AuthFile string `kind:"path"`
	// Socket at which routers announce new messages. Without one, SCHEDULERNOTIFY of zmailer.conf
	// names it; none means .scheduler.notify in the postoffice.
	NotifySock Socket `kind:"unixsocket" read:"at start"`
	// How often the failures so far of a message that still has open recipients are reported.
	ReportInterval time.Duration `kind:"time 1s 365d" name:"global-report-interval" default:"5m"`
	// Keep notices that cannot be sent.
	StoreErrorOnError bool `kind:"flag" name:"store-error-on-error" default:"no"`
	// How long an agent may have open job lines without progress on any, unless its clause sets; 0: no limit.
	AgentTimeout time.Duration `kind:"time 0 365d" name:"agent-timeout" default:"2h"`
	// Socket of the HTTP server that serves metrics in Prometheus format.
	Metrics Socket `kind:"socket 127.0.0.1" read:"at start"`
	// Log to which the scheduler writes a line about each event of each message.
	EventLog string `kind:"path" name:"event-log" read:"at start"`
	// Mode that a scheduler running as root gives to the directories transport, queue, hold, postman and corrupt.
	SpoolMode string `kind:"word 0750 keep" name:"spool-mode" default:"0750" read:"at start"`
	// Name of this node. Without one, it is the host's name and the postoffice.
	Node string `kind:"text" read:"at start"`
	// Redis or Valkey server through which several nodes share limits.
	Cluster *redisurl.Address `kind:"store" read:"at start"`
	// File with the password for the store.
	ClusterPasswordFile string `kind:"path" name:"cluster-password-file" read:"at start"`
	// Table of nodes.
	XferNodes string `kind:"path" name:"xfer-nodes"`
	// File of the weights of sources, senders and domains.
	Shares Shares `kind:"shares"`
	// File of reply rules. They come after those of scheduler.cf.
	Replies Replies `kind:"replies"`
}
