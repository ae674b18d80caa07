package config

// The PARAMs: the parameters of the scheduler itself, and the table of their names.

import (
	"time"

	"zsched/internal/redisurl"
)

// Params are the parameters of the scheduler itself, which PARAM lines set. The table below
// says what each means; "" and the zero value of a socket mean none.
type Params struct {
	MailqSocks []Socket
	AuthFile   string // without one, the scheduler uses version 1 of the query protocol
	// NotifySock is PARAMnotifysock, else SCHEDULERNOTIFY of zmailer.conf; none means
	// .scheduler.notify in the postoffice.
	NotifySock          Socket
	ReportInterval      time.Duration
	StoreErrorOnError   bool
	AgentTimeout        time.Duration // the default of the keyword agent-timeout
	Metrics             Socket
	EventLog            string
	SpoolMode           string // 0750 or keep
	Node                string // "": the host's name and the postoffice
	Cluster             *redisurl.Address
	ClusterPasswordFile string
	XferNodes           string
	Shares              Shares
	Replies             Replies // they come after those of scheduler.cf
}

// params are all PARAMs.
var params = bind[Params]([]row{
	{name: "mailqpath", field: "MailqSocks", atStart: true, aliases: []string{"mailqsock"}, preset: "TCP:174",
		kind:    sockets,
		meaning: "sockets at which the scheduler answers queries"},
	{name: "authfile", kind: path,
		meaning: "file that says who may send which queries and orders"},
	{name: "notifysock", atStart: true, kind: unixSocket,
		meaning: "socket at which routers announce new messages"},
	{name: "global-report-interval", field: "ReportInterval", preset: "5m", kind: span(time.Second, year),
		meaning: "how often the failures so far of a message that still has open recipients are reported"},
	{name: "store-error-on-error", preset: "no", kind: flag,
		meaning: "keep notices that cannot be sent"},
	{name: "agent-timeout", preset: "2h", zero: "no limit", kind: span(0, year),
		meaning: "how long an agent may have open job lines without progress on any, unless its clause sets"},
	{name: "metrics", atStart: true, kind: socket("127.0.0.1"),
		meaning: "socket of the HTTP server that serves metrics in Prometheus format"},
	{name: "event-log", atStart: true, kind: path,
		meaning: "log to which the scheduler writes a line about each event of each message"},
	{name: "spool-mode", atStart: true, preset: "0750", kind: oneOf("0750", "keep"),
		meaning: "mode that a scheduler running as root gives to the directories transport, queue, hold, postman and corrupt"},
	{name: "node", atStart: true, kind: text,
		meaning: "name of this node"},
	{name: "cluster", atStart: true, kind: store,
		meaning: "Redis or Valkey server through which several nodes share limits"},
	{name: "cluster-password-file", atStart: true, kind: path,
		meaning: "file with the password for the store"},
	{name: "xfer-nodes", kind: path,
		meaning: "table of nodes"},
	{name: "shares", kind: sharesFile,
		meaning: "file of the weights of senders and domains"},
	{name: "replies", kind: repliesFile,
		meaning: "file of reply rules"},
})
