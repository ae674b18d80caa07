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
// The table in mailq/server/verbs.go has all commands, the right that each needs and the form of
// its answer; HELP lists those that the user may give. Verbs are in upper case; QUIT and EXIT may
// be in any case. ZMailer's commands get ZMailer's answers, which are text. After the word JSON,
// each line of an answer is an object; our own questions have only this form.
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
// A selection has the keys of the table in selection.go.
//
// A pattern may contain * and ?. It must match the whole text, ignoring case. A
// job must match every key that is given. Each key may be given once, and at
// least one is required. sender=<> is the null sender.
//
// # Words
//
// Words are separated by spaces and TABs. A word, or the value after key=, that
// begins with a double quote is written like a string in Go: \" and \\ stand for the second byte,
// \t, \r and \n for the control characters, and \xHH for any byte. "" is an empty word. See Quote.
//
// # JSON
//
// The structs of this package are the objects. Times are RFC 3339. Bytes that are not UTF-8
// appear as U+FFFD.
//
// # The two sides
//
// Package mailq/server answers sessions from a queue. Package mailq/client asks, and package
// mailq/report says what is shown of the objects. The client writes an Order with its String
// method, and the server reads it with ParseOrder.
package mailq

const (
	// GreetingV1 and GreetingV2 are the first lines of the two versions.
	GreetingV1 = "version zmailer 1.0"
	GreetingV2 = "version zmailer 2.0"
	// PostofficeWord stands at the end of the second line of a greeting, for peers on the same
	// machine. The identity of the server's postoffice follows: its device and inode. The whole
	// line is the challenge of AUTH; clients that do not know the word take it as it is.
	PostofficeWord = " POSTOFFICE "
	// Until is the reply that text lines follow.
	Until = "+OK until LF.LF"
	// Incomplete begins the last text line of an incomplete list.
	Incomplete = "*** the list is not whole: "
	// MaxLine is the longest line that a client may send, in bytes, without its
	// LF. A longer line ends the session.
	MaxLine = 16 << 10
)
