// Package mailq is the query protocol on the wire: MAILQ v1 and v2, their verbs,
// requests and replies, and the values that are sent as JSON. Package
// mailq/server answers and package mailq/client asks; nothing here connects or
// reads files.
//
// # Version 1
//
// The server writes a picture of the queue and closes; nothing is read.
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
// The client gives one line, the server one reply. Lines end in LF; CR is
// dropped wherever it stands, and NUL ends a line's meaning.
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
// Framing: a reply is a line that begins with "+" or "-", and no reply is
// empty. If the line is Until, text lines follow up to one that is "."; a
// text line that begins with a dot has it doubled. An empty line where a
// reply is due means nothing: the old server sends one after each reply to
// KILL, and so does this one after the two that the old one knew.
//
// Where a list breaks off because the queue cannot be read on, its last line
// before the dot says so: it begins with Broken, or in JSON is a Trouble.
//
// # Commands
//
// Verbs are upper case, but QUIT and EXIT. The right is one that the user's
// line in the auth file grants.
//
//	command                           right  reply
//	QUIT, EXIT                               +Bye bye
//	AUTH user digest                         +OK
//	HELP                                     what this user may do
//	SHOW COUNTERS                            counters, 42 columns each
//	SHOW SNMP                         SNMP   two lines of totals
//	SHOW QUEUE SHORT                  QQ     rings and totals
//	SHOW QUEUE THREADS                TT     rings, threads and totals
//	SHOW QUEUE THREADS2               TT     threads, fields between TABs
//	SHOW THREAD channel host          TT     recipients, fields between TABs
//	SHOW MSG id                       TT     a message: spoolid or number
//	SHOW REASONS                      TT     last diagnostics with counts
//	SHOW SHAPE                        TT     ages by destination
//	EXPLAIN channel host              TT     what a destination's mail waits for
//	FIND recipient|sender|message-id|spoolid value
//	                                  TT     messages, held ones too
//	JSON SHOW …, JSON EXPLAIN …, JSON FIND …
//	                                         the same, an object a line
//	ETRN host [text]                  ETRN   +OK; an ETRN started something.
//	KILL MSG id                       KILL   +OK; KILLed something.
//	KILL, EXPIRE, RETRY, HOLD, RELEASE
//	   MSG id | THREAD channel host | WHERE key=value…
//	                                  KILL   +OK; HOLD 3 messages, 5 recipients, 1 threads.
//	REQUEUE MSG id | WHERE key=value…
//	                                  KILL   as HOLD
//	REROUTE MSG id channel host | THREAD channel host channel host
//	      | WHERE key=value… TO channel host
//	                                  KILL   as HOLD
//
// An acting verb may end with DRYRUN (or DRY), BECAUSE and a text that goes
// to the log, or both in this order:
//
//	HOLD WHERE channel=smtp host=*.example.com older=3d DRYRUN
//	EXPIRE THREAD smtp gone.example BECAUSE the customer moved away
//
// Its reply counts what was done, or with "DRYRUN" before the verb what would
// be; an order that touches nothing is refused. Only KILL MSG id with nothing
// behind it answers in the old words whatever happened: an empty BECAUSE asks
// for the count. See Order.String and ParseOutcome.
//
// Keys of a selection are channel, host, sender and reason, patterns with *
// and ? for the whole of the text without regard to case, and older and
// younger, spans such as 3d or 1h30m by the age of the message file. A job
// must fit all that are given, each at most once and one at least. sender=<>
// is the null sender.
//
// # Words
//
// Words stand between blanks and TABs. A word, or the value behind key=, that
// begins with a double quote ends at the next and may hold anything: inside
// it \" and \\ are these bytes, \t, \r and \n the controls and \xHH is any
// byte. See Quote. All other bytes stand for themselves; so "" is the way to
// write an empty word.
//
// # JSON
//
// JSON in front gives, a line each:
//
//	SHOW SNMP            Totals
//	SHOW COUNTERS        CounterItem
//	SHOW QUEUE SHORT     Ring
//	SHOW QUEUE THREADS   ThreadItem
//	SHOW QUEUE THREADS2  ThreadItem
//	SHOW THREAD          Job
//	SHOW MSG, FIND       Message
//	SHOW REASONS         ReasonItem
//	SHOW SHAPE           ShapeItem
//	EXPLAIN              Explanation
//
// Times are RFC 3339. Bytes that are not UTF-8 appear as U+FFFD.
//
// # The two sides
//
// Package mailq/server answers sessions from a queue, and package mailq/client
// asks. Order is what an acting verb says, read by the server and written by
// the client.
package mailq

const (
	// GreetingV1 and GreetingV2 are the first line of each protocol.
	GreetingV1 = "version zmailer 1.0"
	GreetingV2 = "version zmailer 2.0"
	// Until is the reply that text follows.
	Until = "+OK until LF.LF"
	// Broken begins the last text line of a list that is not whole.
	Broken = "*** the list is not whole: "
	// MaxLine is the longest line of a client in bytes, without its LF; a
	// longer one ends the session.
	MaxLine = 16 << 10
)
