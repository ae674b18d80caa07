// Package mailq is the query protocol on the wire: MAILQ v1 and v2, their verbs,
// requests and replies, and the values that are sent as JSON. It opens no
// connections and no files.
//
// # Version 1
//
// The server writes a dump of the queue and closes the connection. It reads
// nothing.
//
//	version zmailer 1.0
//	Vertices:
//	1:<TAB>K/860194<TAB>2; 217,160<TAB>#smtp; 451 busy (retry in 1m53s, expires in 4d23h, tries=5)
//	Channels:
//	smtp:<TAB>>1
//	Hosts:
//	other.example:<TAB>>1
//	End:
//	<the report of SHOW QUEUE THREADS>
//
// # Version 2
//
// The client sends a line and the server answers with a reply. Lines end in LF;
// the server drops every CR, and the rest of a line from the first NUL.
//
//	S: version zmailer 2.0
//	S: 220 MAILQ-V2-CHALLENGE: 1795234572.265840.1
//	C: AUTH nobody ede1a69dc7b3065b1d1141e3df6e3db6      see Digest
//	S: +OK
//	C: SHOW SNMP
//	S: +OK until LF.LF
//	S: Kids: 27  Idle:  7  Msgs:  14  Thrds:  52  Rcpnts:   64  Uptime: 13 sec
//	S: Msgs in 18 out 4 stored 14 Rcpnts in 1053 out 98 stored 955
//	S: .
//	C: QUIT
//	S: +Bye bye
//
// Framing: a reply is a line that begins with "+" or "-"; it is never empty. If
// the line is Until, text lines follow, and then a line ".". A text line that
// begins with a dot has that dot doubled. Clients ignore an empty line in place
// of a reply: ZMailer sends one after each reply to KILL, and this server sends
// one only after "+OK; KILLed something." and after "-Unknown request." to KILL.
//
// If the queue cannot be read to its end, the last line before the dot begins
// with Incomplete, or is a ListError in JSON.
//
// # Commands
//
// Verbs are in upper case; QUIT and EXIT may be in any case. The right is the
// attribute that the user's line in the auth file must have.
//
//	command                           right  reply
//	QUIT, EXIT                               +Bye bye
//	AUTH user digest                         +OK
//	HELP                                     the commands that this user may give
//	SHOW COUNTERS                            counters, 42 columns each
//	SHOW SNMP                         SNMP   two lines of totals
//	SHOW QUEUE SHORT                  QQ     rings and totals
//	SHOW QUEUE THREADS                TT     rings, threads and totals
//	SHOW QUEUE THREADS2               TT     threads, fields between TABs
//	SHOW THREAD channel host          TT     recipients, fields between TABs
//	SHOW WHERE key=value…             TT     the jobs that an order with this selection would affect
//	SHOW MSG id                       TT     a message: spoolid or number
//	SHOW HELD                         TT     held messages and threads: who, when, why, until when
//	SHOW SUSPENDED                    TT     threads that SUSPEND suspends: who, when, why, until when
//	SHOW RULES                        TT     reply rules with their hits
//	SHOW CLUSTER                      TT     store, nodes and limits of the cluster
//	SHOW REASONS                      TT     last diagnostics with counts
//	SHOW SENDERS [DOMAINS]            TT     mail by sender, or by the sender's domain
//	SHOW SHAPE                        TT     recipients by destination and age
//	EXPLAIN channel host              TT     what the mail for a destination is waiting for
//	FIND recipient|sender|message-id|spoolid value
//	                                  TT     messages, held ones too
//	JSON SHOW …, JSON EXPLAIN …, JSON FIND …
//	                                         the same as JSON, one object a line
//	ETRN host [text]                  ETRN   +OK; an ETRN started something.
//	KILL MSG id                       KILL   +OK; KILLed something.
//	KILL, EXPIRE, RETRY, HOLD, RELEASE
//	   MSG id | THREAD channel host | WHERE key=value…
//	                                  KILL   +OK; {"messages":3,"recipients":5,"threads":1}
//	SUSPEND THREAD channel host       KILL   as HOLD
//	LIFT THREAD channel host          KILL   as HOLD
//	REQUEUE MSG id | WHERE key=value…
//	                                  KILL   as HOLD
//	REROUTE MSG id channel host | THREAD channel host channel host
//	      | WHERE key=value… TO channel host
//	                                  KILL   as HOLD
//
// An order, which is a line that begins with one of the verbs from KILL to
// REROUTE, may end with DRYRUN (or DRY), with FOR and a span after which a hold
// ends by itself, with BECAUSE and a text for the log, or with several of them in
// this sequence:
//
//	HOLD THREAD smtp example.com FOR 2h BECAUSE they asked for it
//	HOLD WHERE channel=smtp host=*.example.com older=3d DRYRUN
//	EXPIRE THREAD smtp gone.example BECAUSE the customer moved away
//
// The reply is an Outcome as JSON, which counts what the order did, or would do after
// DRYRUN. An order that matches nothing is refused. KILL MSG id with nothing after it
// is ZMailer's command and always gets ZMailer's reply; with an empty BECAUSE it gets
// counts. See Order.String and ParseOutcome.
//
// A selection has these keys:
//
//	key                value                compared with
//	channel, host      pattern              the job's thread
//	sender, recipient  pattern              the addresses
//	message-id         pattern              the Message-ID
//	reason             pattern              the last diagnostics
//	state              one of JobStates     the state of the job
//	older, younger     span, 3d or 1h30m    the age of the message file
//	larger, smaller    size, 500k or 10M    the bytes of the message file
//
// A pattern may contain * and ?. It must match the whole text, ignoring case. A
// job must match every key that is given. Each key may be given once, and at
// least one is required. sender=<> is the null sender.
//
// # Words
//
// Words are separated by spaces and TABs. A word, or the value after key=, that
// begins with a double quote ends at the next double quote. Between the two, \"
// and \\ stand for the second byte, \t, \r and \n for the control characters,
// and \xHH for any byte. All other bytes stand for themselves. "" is an empty
// word. See Quote.
//
// # JSON
//
// After JSON and a command, each line of the answer is one of these:
//
//	SHOW SNMP            Totals
//	SHOW COUNTERS        CounterItem
//	SHOW QUEUE SHORT     Ring
//	SHOW QUEUE THREADS   ThreadItem
//	SHOW QUEUE THREADS2  ThreadItem
//	SHOW THREAD          Job
//	SHOW WHERE           Job
//	SHOW MSG, FIND       Message
//	SHOW HELD            HeldItem
//	SHOW SUSPENDED       SuspendedItem
//	SHOW RULES           RuleItem
//	SHOW CLUSTER         ClusterItem
//	SHOW REASONS         ReasonItem
//	SHOW SENDERS         SenderItem
//	SHOW SHAPE           ShapeItem
//	EXPLAIN              Explanation
//
// Times are RFC 3339. Bytes that are not UTF-8 appear as U+FFFD.
//
// # The two sides
//
// Package mailq/server answers sessions from a queue. Package mailq/client asks.
// The client writes an Order with its String method, and the server reads it
// with ParseOrder.
package mailq

const (
	// GreetingV1 and GreetingV2 are the first lines of the two versions.
	GreetingV1 = "version zmailer 1.0"
	GreetingV2 = "version zmailer 2.0"
	// Until is the reply that text lines follow.
	Until = "+OK until LF.LF"
	// Incomplete begins the last text line of an incomplete list.
	Incomplete = "*** the list is not whole: "
	// MaxLine is the longest line that a client may send, in bytes, without its
	// LF. A longer line ends the session.
	MaxLine = 16 << 10
)
