package view

import "time"

// Views that no client sees: counters, and what the spool and orders ask about a message.

// Channel is what a channel has done since the start, and does now.
type Channel struct {
	Name             string
	Agents, Sessions int
	ChannelCounts
}

// ChannelCounts are the recipients of a channel that arrived, and their outcomes. A recipient
// counts as Deferred each time.
type ChannelCounts struct{ In, Delivered, Deferred, Failed, Expired uint64 }

// Message is a message in the queue.
type Message struct {
	ModifiedAt time.Time
	Vertices   int   // those that are done included
	Recipients int   // not done
	UnderHold  bool  // its files lie under hold/
	Hold       *Hold // the order that holds it; nil: there is none
	// Leaving: its files are being removed. A file that appears now under the same number may be a
	// new message in a reused inode; look again when the message has left.
	Leaving bool
}

// Counts are counters that are kept up to date, so that reading them costs
// nothing.
type Counts struct {
	Messages     int // in the queue, those being removed included
	Vertices     int
	Recipients   int // not done
	Threads      int
	States       map[string]int // of vertices, as in Thread
	FailedWrites int            // writes that have failed and will be tried again
	Held         int            // of Messages, those that are held, or are to be when agents report

	Agents        int // processes, starting and closing ones included
	AgentsIdle    int
	AgentsClosing int
	Sessions      int // busy

	// In: loaded. Out: gone from the queue (done, resubmitted or missing). In minus Out is
	// what is in the queue.
	MessagesIn, MessagesOut     uint64
	RecipientsIn, RecipientsOut uint64
	// Found: of those that came in, the ones whose control files are older than this process.
	MessagesFound, RecipientsFound uint64

	BytesIn       uint64 // sizes of the message files loaded
	AgentsStarted uint64

	Suspensions uint64 // of threads whose destination failed
}

// Trouble is a fault that stops the writing of control files. The zero value is none.
type Trouble struct {
	Reason string    // it names the file
	Since  time.Time // of the first of the faults
	Down   bool      // nothing can be written, and nothing is fed
	Writes int       // that have failed and will be tried again
}
