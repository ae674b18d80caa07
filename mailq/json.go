package mailq

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// This file declares the values that answers carry as JSON: one struct for each
// kind of line. A field that the protocol may leave out has omitempty or
// omitzero.

// Name is the channel and host of a thread.
type Name struct {
	Channel string `json:"channel"`
	Host    string `json:"host"`
}

// ParseName reads channel/host.
func ParseName(s string) (Name, error) {
	channel, host, ok := strings.Cut(s, "/")
	if !ok || channel == "" || host == "" {
		return Name{}, fmt.Errorf("%q is not channel/host", s)
	}
	return Name{Channel: channel, Host: host}, nil
}

// Ring is a line of JSON SHOW QUEUE SHORT: the threads that share agents.
type Ring struct {
	// ID is unique for as long as the scheduler runs and is never reused.
	// Several rings may have the same patterns.
	ID uint64 `json:"ring"`
	// Channel and Host are the pattern of the clause that gives the command.
	Channel  string `json:"channel_pattern"`
	Host     string `json:"host_pattern"`
	WithHost bool   `json:"with_host"` // the command contains $host
	Threads  int    `json:"threads"`
	Jobs     int    `json:"jobs"`
	Agents   int    `json:"agents"`
	Idle     int    `json:"idle"`
	MaxRing  int    `json:"maxring"`
	Overfeed int    `json:"overfeed"`
	MaxThr   int    `json:"maxthr"`
}

// ThreadRow is a thread and the ring that it is in.
type ThreadRow struct {
	Ring   *Ring
	Thread *Thread // nil: the ring has no threads
}

// ThreadItem is a line of JSON SHOW QUEUE THREADS.
type ThreadItem struct {
	Ring uint64 `json:"ring"` // Ring.ID
	Thread
}

// Thread is the mail for one channel and host.
type Thread struct {
	Name
	WithHost   bool `json:"with_host"`
	Jobs       int  `json:"jobs"`
	Recipients int  `json:"recipients"` // not done
	Attempts   int  `json:"attempts"`   // results reported so far
	// States counts the jobs in each state that has any, but for those that are NotLoaded, because
	// of the limits on memory.
	States    map[string]int `json:"states,omitempty"`
	NotLoaded int            `json:"not_loaded,omitempty"`
	Agents    []Agent        `json:"agents,omitempty"`
	WakeAt    time.Time      `json:"wake_at,omitzero"` // zero: it is not waiting for a time
	Pending   Pending        `json:"pending,omitempty"`
	OldestAt  time.Time      `json:"oldest_at"` // mtime of its oldest message file
	Held      bool           `json:"held,omitempty"`
	Reason    string         `json:"reason,omitempty"` // last diagnostic of any recipient
	Window    int            `json:"window"`           // sessions that it may use now
	Rate      float64        `json:"rate"`             // recipients finished per minute, over the last few minutes
	// WindowLimit is the most that the window can be (maxthr); 0: not known.
	WindowLimit    int         `json:"window_limit,omitempty"`
	Sessions       int         `json:"sessions,omitempty"` // busy
	Destination    Destination `json:"destination,omitempty"`
	Site           string      `json:"site,omitempty"` // the host that agents have talked to; "": not known
	SuspendedUntil time.Time   `json:"suspended_until,omitzero"`
	SuspendedBy    Suspender   `json:"suspended_by,omitempty"`
	Effects        []Effect    `json:"effects,omitempty"`  // of reply rules and other nodes
	Feedback       *Feedback   `json:"feedback,omitempty"` // nil: the window is fixed
	// StartError is why no agent starts for its due mail.
	StartError string `json:"start_error,omitempty"`
}

// Agent is an agent that works on a thread.
type Agent struct {
	PID      int       `json:"pid"`
	HungryAt time.Time `json:"hungry_at,omitzero"` // last #hungry; zero: none yet
	FedAt    time.Time `json:"fed_at,omitzero"`    // last job line; zero: none yet
	Open     int       `json:"open"`               // job lines given and not answered
	State    string    `json:"state"`              // ERROR, LARVA, STUFF, FINISH or IDLE
}

// Pending says why due mail of a thread is not being fed. The strings are those
// of ZMailer where it had one.
type Pending string

const (
	NotPending         Pending = ""
	PendingTA          Pending = ">MaxTA"
	PendingChannel     Pending = ">MaxChannel"
	PendingRing        Pending = ">MaxRing"
	PendingThread      Pending = ">MaxThr"
	PendingFrozen      Pending = "Frozen"
	PendingForks       Pending = "ForkRateLimit"
	PendingCommand     Pending = "ConfBUG:NoCmdDefined!"
	PendingStart       Pending = "System:ForkFailure!"
	PendingHeld        Pending = "Held"
	PendingTrigger     Pending = "QueueOnly"
	PendingSpool       Pending = "SpoolDown"
	PendingRule        Pending = "ReplyRule" // suspended by a reply rule
	PendingRate        Pending = "Rate"      // the thread has no token
	PendingSite        Pending = "SiteMax"
	PendingSiteRate    Pending = "SiteRate"
	PendingChannelRate Pending = "ChannelRate"
)

// Job is a line of JSON SHOW THREAD: one message's recipients in one thread.
type Job struct {
	Name                // of the thread
	WithHost  bool      `json:"with_host"`
	Message   uint64    `json:"message"` // number in the control file's name
	Path      string    `json:"path"`    // of the control file below transport/
	SpoolID   string    `json:"spoolid"`
	Sender    string    `json:"sender"`          // "" for <>
	Owner     *uint32   `json:"owner,omitempty"` // uid of the user who submitted it; nil: not known
	State     string    `json:"state"`           // one of JobStates
	PID       int       `json:"pid,omitempty"`   // of the agent that has it
	Next      bool      `json:"next,omitempty"`  // the next to be fed
	ArrivedAt time.Time `json:"arrived_at"`      // mtime of the message file
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	WakeAt    time.Time `json:"wake_at,omitzero"`
	FedAt     time.Time `json:"fed_at,omitzero"`
	Pending   Pending   `json:"pending,omitempty"`
	Held      bool      `json:"held,omitempty"` // it, its message or its thread
	// Order is an order that waits until an agent reports on the job; "": there is none.
	Order Verb `json:"order,omitempty"`
	// OrderTo is the channel/host of such a REROUTE.
	OrderTo string `json:"order_to,omitempty"`
	// StartError is why no agent starts for it while it is due.
	StartError string `json:"start_error,omitempty"`
	// Rule is the reply rule because of which it waits: file:line.
	Rule string `json:"rule,omitempty"`
	// LogID and Size are the Message-Id and the bytes of the message file. They
	// are missing where the files were not read.
	LogID      string      `json:"message_id,omitempty"`
	Size       int64       `json:"bytes,omitempty"`
	Recipients []Recipient `json:"recipients"`
}

// ReasonOf says why a recipient is still in the queue: the error of the agents
// that do not start, or else the recipient's last diagnostic, or else the reply
// rule that has suspended the thread.
func (j *Job) ReasonOf(r *Recipient) string {
	rule := ""
	if j.Rule != "" {
		rule = "suspended by the reply rule of " + j.Rule
	}
	return cmp.Or(StartReason(j.StartError), r.Reason, rule)
}

// OrderText says that an order waits, with the channel/host of a REROUTE; "" if none does.
func OrderText(order Verb, to string) string {
	switch {
	case order == "":
		return ""
	case to != "":
		return string(order) + " to " + to + " when the agent reports"
	}
	return string(order) + " when the agent reports"
}

// LastReason says why the mail of a thread is in the queue, as Job.ReasonOf does.
func (t *Thread) LastReason() string { return cmp.Or(StartReason(t.StartError), t.Reason) }

// StartReason is the StartError of a job or thread as a reason; "" for "".
func StartReason(err string) string {
	if err == "" {
		return ""
	}
	return "no agent starts: " + err
}

// HeldItem is a line of JSON SHOW HELD: the part of a held message that is for
// one destination, or a held thread. A thread has no message, path or spoolid. If Order
// is set, the message is held as soon as no agent has any of it.
type HeldItem struct {
	Job
	HoldInfo
	// Messages counts the mail of a held thread.
	Messages int `json:"messages,omitempty"`
}

// HoldInfo is an order that holds something. All is missing where no record of it is left.
type HoldInfo struct {
	HeldAt time.Time `json:"held_at,omitzero"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is released
	By     string    `json:"by,omitempty"`
	Why    string    `json:"because,omitempty"`
}

// IsThread reports whether the item is a held thread.
func (h *HeldItem) IsThread() bool { return h.SpoolID == "" }

// Recipient is a recipient of a Job that is not done.
type Recipient struct {
	Offset   int64  `json:"offset"` // of its line in the control file
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason,omitempty"` // last diagnostic; \r between lines
	Code     string `json:"code,omitempty"`   // status code of that (RFC 3463), if the agent gave one
	// User is the address. It is "" where the control file was not read.
	User string `json:"user,omitempty"`
}

// Message is the answer to JSON SHOW MSG: what is in a control file.
type Message struct {
	Message   uint64    `json:"message"`
	Path      string    `json:"path"`
	SpoolID   string    `json:"spoolid"`
	LogID     string    `json:"message_id,omitempty"` // its Message-Id
	Sender    string    `json:"sender"`
	ErrorsTo  string    `json:"errors_to,omitempty"`
	ArrivedAt time.Time `json:"arrived_at"`
	Control   int64     `json:"control_bytes"`
	Size      int64     `json:"bytes"`
	Held      bool      `json:"held,omitempty"`
	// NoFile says that the message file is lost: the recipients fail at their next attempt.
	NoFile     bool               `json:"no_message_file,omitempty"`
	Recipients []MessageRecipient `json:"recipients"`
}

// MessageRecipient is a recipient line of a control file, done or not.
type MessageRecipient struct {
	Name
	User string `json:"user"`
	// Originals are the addresses that it had before aliases: the one that the
	// sender gave, and the one that this host expanded.
	Originals []string  `json:"originals,omitempty"`
	Offset    int64     `json:"offset"`
	State     string    `json:"state"` // as Job.State; or held, delivered, failed, expired, killed, requeued, rerouted, moved or done
	Attempts  int       `json:"attempts"`
	WakeAt    time.Time `json:"wake_at,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	Order     Verb      `json:"order,omitempty"` // as Job.Order
	OrderTo   string    `json:"order_to,omitempty"`
	// KeptBack is StateHeld if the thread is held, while the recipient waits.
	KeptBack string `json:"kept_back,omitempty"`
}

// Explanation is the answer to JSON EXPLAIN: what the mail for a destination is
// waiting for, if anything.
type Explanation struct {
	Name
	Thread *Thread `json:"thread,omitempty"` // nil: there is no mail
	// Wait is why mail is not fed now: retry, or what the metric scheduler_threads_waiting
	// has. Until is when that ends by itself; zero: it does not, or the time is not known.
	Wait  string    `json:"wait,omitempty"`
	Until time.Time `json:"until,omitzero"`
	Hold  *HoldInfo `json:"hold,omitempty"` // of the thread; nil: it is not held
	// Unloaded counts the messages that could not be loaded, with the reason of one of them.
	Unloaded Kept      `json:"unloaded,omitzero"`
	Limits   []Limit   `json:"limits"`
	Clauses  []Clause  `json:"clauses"`
	Settings []Setting `json:"settings"` // every parameter in force
}

// Clause is a clause of scheduler.cf that matches.
type Clause struct {
	Pattern string `json:"pattern"`
	File    string `json:"file"`
	Line    int    `json:"line"`
}

// Setting is a parameter in force and the place where it is set.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	File  string `json:"file,omitempty"` // "": it is the default
	Line  int    `json:"line,omitempty"`
}

// Limit is a limit on a thread and how much of it is used.
type Limit struct {
	// Name is maxta, maxchannel, maxring, maxthr, window, sitemax, clustermax or
	// clustersitemax.
	Name   string `json:"name"`
	Used   int    `json:"used"`
	Most   int    `json:"most"` // 0: no limit, except in clustermax and clustersitemax
	Blocks bool   `json:"blocks"`
	// Agents is the number of processes, which maxchannel and maxring limit as well.
	Agents int `json:"agents,omitempty"`
	// Cluster has, for a limit of the cluster, the parts of the nodes.
	Cluster []ClusterLimit `json:"cluster,omitempty"`
}

// ListError is the last object of an incomplete list.
type ListError struct {
	Error string `json:"error"`
}
