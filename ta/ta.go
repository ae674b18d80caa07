// Package ta is the dialogue between the scheduler and its transport agents:
// both sides of the wire as a pure codec, and the loop for agents written in
// Go (see Server).
//
// An agent is a child of the scheduler. Its standard input and output are one
// stream socket, on which both sides write lines:
//
//	T: #hungry                           I am here and have nothing to do
//	S: B/I/15582 TAB example.net         a job line: message and host
//	T: 15582/109 TAB TAB ok3 250 ok      one recipient of it is done
//	T: 15582/156 TAB bob^Afailed^A4.2.2^Asmtp; 451 later^A^A TAB deferred later
//	T: #hungry                           this answers the job line
//	S: #idle                             nothing for you now
//	T: #hungry                           understood; the agent is parked
//	S: B/I/15610 TAB example.org         no new #hungry is needed before it
//	T: #resync B/I/15610                 I found nothing to do in that file
//	T: #hungry
//	S: (empty line, end of file)         leave
//
// That is ZMailer's dialogue, byte for byte (scheduler(8), "Transport agent
// interface"); ta(7) is its manual. An agent whose command names the host
// ($host) is given the path alone.
//
// What an agent may do is one thing more than of old: told so by its command
// (${sessions}), it keeps up to N job lines open at once. It says #hungry N
// times at the start and once for every line that has ended:
//
//	T: #hungry #hungry                   (two lines; sessions=2)
//	S: B/I/15582 TAB example.net
//	S: B/J/15583 TAB example.net
//	T: 15583/109 TAB TAB ok3             any order: reports say whose they are
//	T: #hungry                           15583 has ended, one more line, please
//
// A job line ends when all its recipients are reported, at a deferall (the
// unreported ones count as deferred) or when it is resynced. A #hungry that
// answers no ended line, an agent's first N excepted, ends the oldest open
// one.
//
// Nothing in here trusts the other side: lines are bounded (MaxLine), what
// does not parse is a value too (Garbled), and no input makes it panic.
package ta
