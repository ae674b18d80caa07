package config

// The table of keywords and PARAMs: every name with its kind, bounds and
// default.

import (
	"slices"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/internal/interval"
	"zsched/internal/redisurl"
	"zsched/scheduler"
)

// row is one keyword of a clause, or one PARAM.
type row[T any] struct {
	name    string // lower case
	aliases []string
	kind    kind[T]
	preset  string // the default, as a file would set it; empty: none
	zero    string // what 0 stands for, where that is not "none"
	meaning string // begins the entry in scheduler.cf(5)
	// zmailer says what ZMailer did when neither the clause nor */* set the
	// keyword; empty where this program does the same.
	zmailer string
	// atStart is the program that reads a PARAM only when it starts; empty: a reload
	// changes it.
	atStart string
}

// find returns the row with this name or alias, ignoring case, or nil.
func find[T any](table []row[T], name string) *row[T] {
	for i := range table {
		same := func(known string) bool { return strings.EqualFold(known, name) }
		if same(table[i].name) || slices.ContainsFunc(table[i].aliases, same) {
			return &table[i]
		}
	}
	return nil
}

// names returns every name and alias of a table.
func names[T any](table []row[T]) []string {
	var out []string
	for _, r := range table {
		out = append(append(out, r.name), r.aliases...)
	}
	return out
}

// values are the parameters that a clause sets.
type values = scheduler.Params

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// withoutEffect is the meaning of keywords of ZMailer that are accepted only so
// that its files can be read.
const withoutEffect = "without effect"

// keywords are all keywords of a clause, in the order of scheduler.cf(5). Names,
// kinds, bounds and defaults are defined nowhere else.
var keywords = []row[values]{
	// When to try.
	{name: "interval", preset: "1m",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.Interval }, low: time.Second, high: year},
		meaning: "unit of the waits between attempts",
		zmailer: "ZMailer waited in units of an hour"},
	{name: "retries", preset: "1 1 2 3 5 8 13 21 34",
		kind:    factors{field: func(v *values) *[]int { return &v.Retries }, high: 1000000, max: 100},
		meaning: "waits after failed attempts, in units of interval",
		zmailer: "ZMailer tried again at every sweep"},
	{name: "jitter", preset: "10",
		kind:    count[values]{field: func(v *values) *int { return &v.Jitter }, high: 100},
		meaning: "percentage by which waits vary at random"},
	{name: "backoff", preset: "retries",
		kind: choice[values]{words: []string{"retries", "age"},
			put:   func(v *values, i int) { v.Backoff = scheduler.Backoff(i) },
			index: func(v *values) int { return int(v.Backoff) }},
		meaning: "how waits are calculated"},
	{name: "minbackoff", preset: "5m",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.MinBackoff }, low: time.Second, high: year},
		meaning: "shortest wait with backoff=age"},
	{name: "maxbackoff", preset: "4000s",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.MaxBackoff }, low: time.Second, high: year},
		meaning: "longest wait with backoff=age"},
	{name: "expiry", preset: "3d", zero: "never",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.Expiry }, high: interval.Max},
		meaning: "age at which a recipient that was tried expires",
		zmailer: "in ZMailer mail never expired"},
	{name: "expiry2", preset: "1d", zero: "a day",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.Expiry2 }, high: interval.Max, zero: day},
		meaning: "time after expiry at which a recipient that was never tried expires"},
	{name: "queueonly", preset: "no",
		kind:    flag[values]{field: func(v *values) *bool { return &v.QueueOnly }},
		meaning: "deliver only on request"},
	{name: "wakeuprestartonly", preset: "no",
		kind:    flag[values]{field: func(v *values) *bool { return &v.WakeupRestartOnly }},
		meaning: "new mail does not start another agent for its thread"},
	{name: "reporttimes",
		kind:    times{field: func(v *values) *[]time.Duration { return &v.ReportTimes }, low: time.Second, high: year, max: 4},
		meaning: "ages at which senders who asked for it (NOTIFY=DELAY) are notified of a delay"},

	// What to start.
	{name: "command",
		kind:    words{field: func(v *values) *[]string { return &v.Command }},
		meaning: "the agent and its arguments"},
	{name: "user", preset: "root",
		kind: account{what: "user",
			field:  func(v *values) *int { return &v.UID },
			lookup: func(s System) func(string) (int, error) { return s.User },
			self:   func(s System) int { return s.UID }},
		meaning: "user the agent runs as"},
	{name: "group", preset: "daemon",
		kind: account{what: "group",
			field:  func(v *values) *int { return &v.GID },
			lookup: func(s System) func(string) (int, error) { return s.Group },
			self:   func(s System) int { return s.GID }},
		meaning: "group the agent runs as",
		zmailer: "in ZMailer the agent kept the scheduler's own group"},
	{name: "nice", preset: "0",
		kind: count[values]{field: func(v *values) *int { return &v.Nice }, low: -40, high: 39,
			then:  func(v *values) { v.Priority, v.PrioritySet = 0, false },
			unset: func(v *values) bool { return v.PrioritySet }},
		meaning: "nice value of the agent, relative to the scheduler's"},
	{name: "priority",
		kind: count[values]{field: func(v *values) *int { return &v.Priority }, low: -20, high: 19,
			then:  func(v *values) { v.Nice, v.PrioritySet = 0, true },
			unset: func(v *values) bool { return !v.PrioritySet }},
		meaning: "priority of the agent, regardless of the scheduler's"},
	{name: "marking", preset: "agent",
		kind: choice[values]{words: []string{"agent", "scheduler"},
			put:   func(v *values, i int) { v.Marking = ctlfile.Marking(i) },
			index: func(v *values) int { return int(v.Marking) }},
		meaning: "who writes results into the control file"},
	{name: "agent-timeout", preset: "2h", zero: "no limit",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.AgentTimeout }, high: year},
		meaning: "how long an agent may have open job lines without progress on any"},
	{name: "job-timeout", preset: "1d", zero: "no limit",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.JobTimeout }, high: year},
		meaning: "how long an agent may work on one job line"},
	{name: "idlemax", preset: "0", zero: "three times interval",
		kind:    span[values]{field: func(v *values) *time.Duration { return &v.IdleMax }, high: year},
		meaning: "how long an agent may be idle"},

	// How much at a time.
	{name: "maxta", aliases: []string{"maxtransport", "maxtransports"}, preset: "0", zero: "what the descriptors allow",
		kind:    count[values]{field: func(v *values) *int { return &v.MaxTA }, high: 1000000, floor: true},
		meaning: "maximum number of agents in total"},
	{name: "maxchannel", aliases: []string{"maxchannels"}, preset: "0", zero: "maxta",
		kind:    count[values]{field: func(v *values) *int { return &v.MaxChannel }, high: 1000000, floor: true},
		meaning: "maximum number of busy sessions of the channel"},
	{name: "maxring", aliases: []string{"maxrings"}, preset: "0", zero: "maxta",
		kind:    count[values]{field: func(v *values) *int { return &v.MaxRing }, high: 1000000, floor: true},
		meaning: "maximum number of busy sessions of the ring"},
	{name: "maxthr", preset: "1",
		kind:    count[values]{field: func(v *values) *int { return &v.MaxThr }, low: 1, high: 1000000, floor: true},
		meaning: "maximum number of busy sessions of the thread"},
	{name: "overfeed", preset: "150",
		kind:    count[values]{field: func(v *values) *int { return &v.Overfeed }, high: 100000, floor: true},
		meaning: "job lines an agent is given in addition to the one it works on",
		zmailer: "ZMailer gave an agent one job line at a time"},
	{name: "sessions", preset: "1",
		kind:    count[values]{field: func(v *values) *int { return &v.Sessions }, low: 1, high: 1000},
		meaning: "job lines an agent works on at once"},

	// Rates.
	{name: "rate",
		kind:    rates{field: func(v *values) *[]scheduler.Rate { return &v.Rate }},
		meaning: "maximum rate at which recipients of the thread are fed"},
	{name: "rateburst", preset: "1",
		kind:    count[values]{field: func(v *values) *int { return &v.RateBurst }, low: 1, high: 1000000},
		meaning: "recipients that may be fed at once after a pause, under each rate"},
	{name: "channelrate",
		kind:    rates{field: func(v *values) *[]scheduler.Rate { return &v.ChannelRate }},
		meaning: "maximum rate at which recipients of the channel are fed"},
	{name: "sitemax", preset: "0", zero: "no limit",
		kind:    count[values]{field: func(v *values) *int { return &v.SiteMax }, high: 1000000},
		meaning: "maximum number of busy sessions of the site"},
	{name: "siterate",
		kind:    rates{field: func(v *values) *[]scheduler.Rate { return &v.SiteRate }},
		meaning: "maximum rate at which recipients of the site are fed"},
	{name: "ringrate",
		kind:    rates{field: func(v *values) *[]scheduler.Rate { return &v.RingRate }},
		meaning: "maximum rate at which recipients of the ring are fed"},

	// Limits that several nodes share.
	{name: "clustermax", preset: "0", zero: "no limit",
		kind:    count[values]{field: func(v *values) *int { return &v.ClusterMax }, high: 1000000},
		meaning: "maximum number of busy sessions of the thread on all nodes together"},
	{name: "clustersitemax", preset: "0", zero: "no limit",
		kind:    count[values]{field: func(v *values) *int { return &v.ClusterSiteMax }, high: 1000000},
		meaning: "maximum number of busy sessions of the site on all nodes together"},
	{name: "clusterrate",
		kind:    oneRate{field: func(v *values) *scheduler.Rate { return &v.ClusterRate }},
		meaning: "maximum rate at which recipients of the thread are fed, on all nodes together"},

	// Windows.
	{name: "initialconcurrency", preset: "0", zero: "always maxthr",
		kind:    count[values]{field: func(v *values) *int { return &v.InitialConcurrency }, high: 10000},
		meaning: "initial window of a thread"},
	{name: "positivefeedback", preset: "1/N",
		kind:    feedback[values]{field: func(v *values) *scheduler.Feedback { return &v.PositiveFeedback }},
		meaning: "how far a success widens the window"},
	{name: "negativefeedback", preset: "1/N",
		kind:    feedback[values]{field: func(v *values) *scheduler.Feedback { return &v.NegativeFeedback }},
		meaning: "how far a failure of the destination narrows the window"},
	{name: "cohortlimit", preset: "1",
		kind:    ratio[values]{field: func(v *values) *float64 { return &v.CohortLimit }, low: 0.01, high: 1000},
		meaning: "number of consecutive failed windows after which a destination is dead"},
	{name: "feedbacklog", preset: "no",
		kind:    flag[values]{field: func(v *values) *bool { return &v.FeedbackLog }},
		meaning: "log how windows change"},

	// What is delivered next.
	{name: "ageorder", preset: "no",
		kind:    flag[values]{field: func(v *values) *bool { return &v.AgeOrder }},
		meaning: "oldest message first"},
	{name: "slotcost", preset: "5", zero: "nothing overtakes",
		kind:    count[values]{field: func(v *values) *int { return &v.SlotCost }, high: 1000},
		meaning: "number of picks of a big message that earn one slot for a smaller message"},
	{name: "slotdiscount", preset: "50",
		kind:    count[values]{field: func(v *values) *int { return &v.SlotDiscount }, high: 100},
		meaning: "percentage discount on the price of overtaking"},
	{name: "slotloan", preset: "3",
		kind:    count[values]{field: func(v *values) *int { return &v.SlotLoan }, high: 1000},
		meaning: "slots lent towards the price of overtaking"},
	{name: "minslots", preset: "3",
		kind:    count[values]{field: func(v *values) *int { return &v.MinSlots }, high: 1000},
		meaning: "slots a message must be able to earn to be overtaken at all"},
	{name: "msgsessions", preset: "20",
		kind:    count[values]{field: func(v *values) *int { return &v.MsgSessions }, low: 1, high: 1000000},
		meaning: "number of sessions that any message may have"},
	{name: "msgscale", preset: "10",
		kind:    count[values]{field: func(v *values) *int { return &v.MsgScale }, high: 1000000},
		meaning: "number of sessions that a message may have for each free session"},
	{name: "share", preset: "senderdomain",
		kind: choice[values]{words: shareWords,
			put: func(v *values, i int) { v.Share = shareWords[i] },
			index: func(v *values) int {
				for i, word := range shareWords {
					if v.Share == word {
						return i
					}
				}
				return 0
			}},
		meaning: "who takes turns"},
	{name: "quantum", preset: "50",
		kind:    count[values]{field: func(v *values) *int { return &v.Quantum }, low: 1, high: 1000000},
		meaning: "picks a thread may have in a round while others wait"},

	// The scheduler's own process.
	{name: "sysnice",
		kind:    processCount{field: func(f *File) **int { return &f.SysNice }, low: -40, high: 39},
		meaning: "increment of the scheduler's own nice value"},
	{name: "syspriority",
		kind:    processCount{field: func(f *File) **int { return &f.SysPriority }, low: -20, high: 19},
		meaning: "priority of the scheduler"},

	// Without effect.
	{name: "skew", preset: "5",
		kind:    count[values]{low: 1, high: 1000000},
		meaning: withoutEffect},
	{name: "bychannel",
		kind:    flag[values]{},
		meaning: withoutEffect},
	{name: "deliveryform",
		kind:    text[values]{},
		meaning: withoutEffect},
	{name: "expiryform",
		kind:    text[values]{},
		meaning: withoutEffect},
}

// shareWords are the values of the keyword share. An unset Share is shown as
// the first of them.
var shareWords = []string{"sender", "senderdomain", "none"}

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
	// MsgWriteAsync means that notices are not synced to disk.
	MsgWriteAsync bool
	// StoreErrorOnError keeps notices about messages with a null sender, which
	// cannot be sent, in postman/.
	StoreErrorOnError bool
	// AgentTimeout is the default of the keyword agent-timeout.
	AgentTimeout time.Duration
	// ActiveLimit and RecipientLimit are the maximum numbers of messages and
	// recipients in memory; 0: no limit. RingReserve is how many recipients a
	// ring may have in memory even if a limit is reached.
	ActiveLimit, RecipientLimit, RingReserve int
	// Metrics is the socket of the metrics; the zero value means none.
	Metrics Socket
	// EventLog is the path of the event log, or UNIX: and the path of the socket
	// at which a program reads it; empty: none.
	EventLog string
	// KeepSpoolMode leaves the modes of transport/ and queue/ as they are.
	KeepSpoolMode bool
	// Node is the name of this node; empty: the host's name and the postoffice.
	Node string
	// Cluster is the address of the store of the cluster; nil: there is none.
	// ClusterLost is divide, stop or local.
	Cluster             *redisurl.Address
	ClusterLost         string
	ClusterPasswordFile string
	ClusterPrefix       string
	// Fence is the path of the command that makes sure that a node no longer runs;
	// empty: none.
	Fence string
	// XferListen is the socket at which xferd takes mail from other nodes; the zero
	// value: the node's own line in the table of nodes. XferNodes is the path of
	// that table; empty: none. XferCert, XferKey and XferCA are the files of this
	// node's certificate.
	XferListen                           Socket
	XferNodes, XferCert, XferKey, XferCA string
	// XferChannels are the channels of which other nodes may move mail here, with
	// blanks between them. XferPrograms lets them move mail of all channels here, and
	// mail for programs, files and lists.
	XferChannels string
	XferPrograms bool
	// SharesFile is the path of the file that Shares was read from. Shares has
	// the weights of senders and domains, in lower case; others have 1.
	SharesFile string
	Shares     map[string]int
	// RepliesFile is the path of the file that Replies was read from. Replies has
	// its reply rules, which come after those of scheduler.cf.
	RepliesFile string
	Replies     []scheduler.ReplyRule
}

// lostWords are the values of PARAMcluster-lost.
var lostWords = []string{"divide", "stop", "local"}

// params are all PARAMs, in the order of scheduler.cf(5).
var params = []row[Params]{
	{name: "mailqpath", atStart: byScheduler, aliases: []string{"mailqsock"}, preset: "TCP:174",
		kind:    sockets[Params]{func(v *Params) *Sockets { return &v.MailqSocks }, socket[Params]{port: mailqPort}},
		meaning: "sockets at which the scheduler answers queries"},
	{name: "authfile",
		kind:    text[Params]{field: func(v *Params) *string { return &v.AuthFile }, path: true},
		meaning: "file that says who may send which queries and orders"},
	{name: "notifysock", atStart: byScheduler,
		kind:    socket[Params]{field: func(v *Params) *Socket { return &v.NotifySock }, local: true},
		meaning: "socket at which routers announce new messages"},
	{name: "global-report-interval", preset: "5m",
		kind:    span[Params]{field: func(v *Params) *time.Duration { return &v.ReportInterval }, low: time.Second, high: year},
		meaning: "how often the failures so far of a message that still has open recipients are reported"},
	{name: "msgwriteasync", preset: "no",
		kind:    flag[Params]{field: func(v *Params) *bool { return &v.MsgWriteAsync }, off: true},
		meaning: "do not wait until a notice is on disk"},
	{name: "store-error-on-error", preset: "no",
		kind:    flag[Params]{field: func(v *Params) *bool { return &v.StoreErrorOnError }, off: true},
		meaning: "keep notices that cannot be sent"},
	{name: "agent-timeout", preset: "2h", zero: "no limit",
		kind:    span[Params]{field: func(v *Params) *time.Duration { return &v.AgentTimeout }, high: year},
		meaning: "how long an agent may have open job lines without progress on any, unless its clause sets"},
	{name: "active-limit", preset: "0", zero: "no limit",
		kind:    count[Params]{field: func(v *Params) *int { return &v.ActiveLimit }, high: 1000000000},
		meaning: "maximum number of messages in memory"},
	{name: "recipient-limit", preset: "0", zero: "no limit",
		kind:    count[Params]{field: func(v *Params) *int { return &v.RecipientLimit }, high: 1000000000},
		meaning: "maximum number of recipients in memory"},
	{name: "ring-reserve", preset: "100",
		kind:    count[Params]{field: func(v *Params) *int { return &v.RingReserve }, high: 1000000000},
		meaning: "recipients that a ring may have in memory even if a limit is reached"},
	{name: "metrics", atStart: byScheduler,
		kind:    socket[Params]{field: func(v *Params) *Socket { return &v.Metrics }, host: "127.0.0.1"},
		meaning: "socket of the HTTP server that serves metrics in Prometheus format"},
	{name: "event-log", atStart: byScheduler,
		kind:    text[Params]{field: func(v *Params) *string { return &v.EventLog }, path: true},
		meaning: "log to which the scheduler writes a line about each event of each message"},
	{name: "spool-mode", atStart: byScheduler, preset: "0750",
		kind: choice[Params]{words: []string{"0750", "keep"},
			put: func(v *Params, i int) { v.KeepSpoolMode = i == 1 },
			index: func(v *Params) int {
				if v.KeepSpoolMode {
					return 1
				}
				return 0
			}},
		meaning: "mode that a scheduler running as root gives to the directories transport, queue, hold, postman and corrupt"},
	{name: "node", atStart: byScheduler,
		kind:    text[Params]{field: func(v *Params) *string { return &v.Node }},
		meaning: "name of this node"},
	{name: "cluster", atStart: byScheduler,
		kind:    store{},
		meaning: "Redis or Valkey server through which several nodes share limits"},
	{name: "cluster-lost", atStart: byScheduler, preset: "divide",
		kind: choice[Params]{words: lostWords,
			put:   func(v *Params, i int) { v.ClusterLost = lostWords[i] },
			index: func(v *Params) int { return max(0, slices.Index(lostWords, v.ClusterLost)) }},
		meaning: "what limits of the cluster allow while the store cannot be reached"},
	{name: "cluster-password-file", atStart: byScheduler,
		kind:    text[Params]{field: func(v *Params) *string { return &v.ClusterPasswordFile }, path: true},
		meaning: "file with the password for the store"},
	{name: "cluster-prefix", atStart: byScheduler, preset: "zs",
		kind:    text[Params]{field: func(v *Params) *string { return &v.ClusterPrefix }},
		meaning: "prefix of the keys in the store"},
	{name: "fence", atStart: byScheduler,
		kind:    text[Params]{field: func(v *Params) *string { return &v.Fence }, path: true},
		meaning: "command that makes sure that another node is no longer running"},
	{name: "xfer-listen", atStart: byXferd,
		kind:    socket[Params]{field: func(v *Params) *Socket { return &v.XferListen }},
		meaning: "socket at which xferd takes mail from other nodes"},
	{name: "xfer-nodes",
		kind:    text[Params]{field: func(v *Params) *string { return &v.XferNodes }, path: true},
		meaning: "table of nodes"},
	{name: "xfer-cert",
		kind:    text[Params]{field: func(v *Params) *string { return &v.XferCert }, path: true},
		meaning: "file of the certificate with which this node moves and takes mail"},
	{name: "xfer-key",
		kind:    text[Params]{field: func(v *Params) *string { return &v.XferKey }, path: true},
		meaning: "file of the key of that certificate"},
	{name: "xfer-ca",
		kind:    text[Params]{field: func(v *Params) *string { return &v.XferCA }, path: true},
		meaning: "file of the authorities that sign the certificates of other nodes"},
	{name: "xfer-channels", atStart: byXferd, preset: "smtp local error hold",
		kind:    text[Params]{field: func(v *Params) *string { return &v.XferChannels }},
		meaning: "channels of which mail may be moved here"},
	{name: "xfer-programs", atStart: byXferd, preset: "no",
		kind:    flag[Params]{field: func(v *Params) *bool { return &v.XferPrograms }},
		meaning: "take moved mail of all channels, and for programs, files and lists"},
	{name: "shares",
		kind:    sharesFile{},
		meaning: "file of the weights of senders and domains"},
	{name: "replies",
		kind:    repliesFile{},
		meaning: "file of reply rules"},
}
