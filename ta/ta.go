// Package ta is the protocol between the scheduler and its transport agents:
// a codec for both sides of the wire, and the main loop for agents written in
// Go (Server).
//
// An agent is a child of the scheduler. Its standard input and output are one
// stream socket, on which both sides write lines:
//
//	T: #hungry                           the agent is ready
//	S: B/I/15582 TAB example.net         a job line: message and host
//	T: 15582/109 TAB TAB ok3 250 ok      one of its recipients is done
//	T: 15582/156 TAB bob^Afailed^A4.2.2^Asmtp; 451 later^A^A TAB deferred later
//	T: #hungry                           this answers the job line
//	S: #idle                             there is nothing to do now
//	T: #hungry                           acknowledged; the agent is idle
//	S: B/I/15610 TAB example.org         no new #hungry is needed before it
//	T: #resync B/I/15610                 the agent found nothing to do in that file
//	T: #hungry
//	S: (empty line, end of file)         leave
//
// That is ZMailer's protocol, byte for byte; its manual is ta(7). If the agent's
// command contains $host, a job line is the path alone.
//
// One thing is new. An agent whose command contains ${sessions} keeps up to N
// job lines open at once. It writes #hungry N times at the start, and once for
// each job line that has ended:
//
//	T: #hungry #hungry                   (two lines; sessions=2)
//	S: B/I/15582 TAB example.net
//	S: B/J/15583 TAB example.net
//	T: 15583/109 TAB TAB ok3             in any order: a report names its recipient
//	T: #hungry                           15583 has ended; one more line, please
//
// A job line ends when all its recipients are reported, at a deferall (the
// unreported ones count as deferred) or when it is resynced. Apart from an
// agent's first N, a #hungry that does not answer an ended job line ends the
// oldest open one.
//
// The second thing that is new is what our agents do about marks and about the end of the
// scheduler: leave.go has the protocol, and ta(7), "Agents that say #reports".
//
// Neither side trusts the other: lines are bounded (MaxLine), a line that cannot
// be parsed becomes a value (Malformed), and no input causes a panic.
package ta
