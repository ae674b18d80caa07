package scheduler

// Events: what the core is told.

import (
	"time"

	"zsched/ctlfile"
	"zsched/scheduler/rule"
	"zsched/scheduler/view"
	"zsched/ta"
)

// Event is something that happened outside the core. The set is sealed: this
// file lists all that the core can be told.
type Event interface{ event() }

// MessageID is the number in the name of a control file. It identifies a
// message as long as its file exists.
type MessageID = view.MessageID

// AgentID identifies an agent. It is not reused.
type AgentID uint32

// Op connects an Action on files with the Event that answers it.
type Op uint64

type (
	// Tick: the time that Next returned has come. RetryWrites, which is set after
	// a signal, makes the writes that have failed due now.
	Tick struct{ RetryWrites bool }

	// Arrived: a message was loaded from the spool.
	Arrived struct{ Message Message }

	// AgentStarted: a Start has created the process. Its first #hungry is still
	// to come.
	AgentStarted struct {
		Agent AgentID
		PID   int
	}

	// AgentFailed: a Start created no process.
	AgentFailed struct {
		Agent  AgentID
		Reason string
	}

	// AgentSaid: the agent said one of its words.
	AgentSaid struct {
		Agent AgentID
		Word  AgentWord
	}

	// AgentReported: the agent reported on one recipient. The report is
	// checked, because agents may report falsely.
	AgentReported struct {
		Agent  AgentID
		Report ta.Report
	}

	// AgentResync: the agent found nothing to do in the file of this message.
	AgentResync struct {
		Agent   AgentID
		Message MessageID
	}

	// AgentExited: the process is gone. The events for all its output have come
	// before this one.
	AgentExited struct {
		Agent  AgentID
		Status string // for people to read: "exit status 1", "signal: killed"
		// LastLine is the last line that it wrote, other than those of the
		// protocol; "": there was none.
		LastLine string
	}

	// Done: the Action with this Op is carried out, and on disk.
	Done struct {
		Op Op
		// Owes is for a Read and a Resubmit: the file has diagnostics that have not been reported
		// yet. It may have some of which no agent has told the core.
		Owes       bool
		Recipients []ctlfile.State // of a Read: what the control file says now
		// Unmarked is for a Resubmit: outcomes of recipients that were sent and could not be
		// marked. The core marks them.
		Unmarked []ctlfile.Mark
	}

	// Failed: the Action with this Op could not be carried out. The core keeps
	// it and issues it again later, unless it is the Hold of a message that was released meanwhile. It
	// gives up a Resubmit, and that mail is back in the queue.
	Failed struct {
		Op     Op // 0: of no action; the spool was found down
		Reason string
		// SpoolDown says that no outcome can be written now (read-only,
		// broken). The core then stops feeding and sends Probe until
		// the answer is SpoolBack.
		SpoolDown bool
		// NoRoom says that the disk is full. Outcomes of deliveries can be written, and they make
		// room, so feeding goes on.
		NoRoom bool
		// Missing says that the control file is gone. The core drops the
		// message.
		Missing bool
		// Unmarked is as in Done. The Resubmit has failed for the other recipients.
		Unmarked []ctlfile.Mark
	}

	// SpoolBack: the answer to a Probe. Writing works again.
	SpoolBack struct{}

	// Triggered: somebody asked for the mail of this host (ETRN).
	Triggered struct{ Host string }

	// Reloaded: a new configuration was read and is valid.
	Reloaded struct{ Config *rule.Config }

	// Ordered: an administrator wants something done with mail. The answer is
	// an Answer in the same Step. On mail that is with an agent, the order is
	// executed when the mail comes back. The cost of the Step grows with the
	// number of vertices of the target messages. So the sender splits a long list
	// into several events, and keeps targets in the same message adjacent.
	Ordered struct {
		Verb    view.Verb
		Targets []Target
		// To is where VerbReroute sends the recipients. Its Message is ignored.
		To Target
		// Back says that To is this node itself: recipients of channel xfer go back to
		// where they were, even those on their way to this node.
		Back bool
		// DryRun counts and changes nothing.
		DryRun bool
		// Only has, for some of the messages, the offsets of the recipients that the
		// order is about, ascending; for any other message it is about all. HOLD, RETRY
		// and RELEASE ignore it.
		Only        map[MessageID][]int64
		Hold        *HoldOrder // of VerbHold, with By and Because as below
		By, Because string     // who gave it, and the reason that was given
		// recorded says that it comes from an earlier process, and is in the event log.
		recorded bool
	}

	// HeldThread: if Held, the mail for this channel and host, present and
	// future, is neither fed nor expired. Otherwise the thread is released, and
	// each recipient gets an attempt before it can expire. At the start, these
	// events come before any mail.
	HeldThread struct {
		Channel, Host string
		Held          bool
		HoldOrder     // By and Because are those of a release, too
	}

	// Lifted: an administrator ends all effects of reply rules on the thread.
	Lifted struct {
		Channel, Host string
		By, Because   string
	}

	// Restored: the state of a thread that an earlier process saved (Save). It
	// comes before the mail that was already in the queue of that process.
	Restored struct{ Thread SavedThread }

	// Stopping: feed nothing more, close the agents, then say Stopped. A slow
	// stop waits longer for open job lines than a fast one.
	Stopping struct{ Slow bool }
)

// AgentWord is what an agent says about itself.
type AgentWord uint8

const (
	// Hungry: it asks for a job line, or answers #idle.
	Hungry AgentWord = iota
	// Reports: it only reports, so that we mark. At the end of its input it drops the mail
	// that may be tried again, and locks the rest.
	Reports
	// Locked: its input has ended, it has locked all that it still works on, and it marks
	// that itself. It reports no more.
	Locked
)

// Message is a message as the spool loaded it.
type Message struct {
	ID   MessageID
	Path string // of the control file below transport/; agents are given it
	// MessageID identifies the message for x lines; "" if it has none.
	MessageID string
	// Sender is the user of the last s line. ErrorTo is where reports go.
	Sender, ErrorTo string
	NullSender      bool
	// Source is who takes turns (ctlfile.Source), "" if unknown. Client is the address that the
	// message came from; it is there only for the event log.
	Source, Client string
	Owner          uint32    // uid of the owner of the message file
	ModifiedAt     time.Time // mtime of the message file, from which its age counts
	ChangedAt      time.Time // ctime of the control file
	Size           int64     // bytes of the message file
	Owes           bool      // the file has diagnostics that have not been reported yet
	Found          bool      // the file is older than this process, so it did not arrive now
	// UnderHold says that its files lie under hold/. Released: it was released, and is to be
	// moved back. Hold is by which order it is held, or is to be held; nil: nothing says so.
	UnderHold, Released bool
	Hold                *HoldOrder
	// Recipients are those still open, in file order.
	Recipients []ctlfile.OpenRecipient
	// Done are the recipients that are tagged as done. Only observers use them, and they
	// are there only for the event log.
	Done []ctlfile.DoneRecipient
	// Saved is the state of some of the recipients, by offset, that an earlier
	// process saved, and Orders are those that it has not carried out. They are
	// applied before any of the mail is fed.
	Saved  []SavedRecipient
	Orders []Ordered
	// Obsoletes has the Message-IDs of messages that this one replaces.
	Obsoletes []string
}

func (Tick) event()          {}
func (Arrived) event()       {}
func (AgentStarted) event()  {}
func (AgentFailed) event()   {}
func (AgentSaid) event()     {}
func (AgentReported) event() {}
func (AgentResync) event()   {}
func (AgentExited) event()   {}
func (Done) event()          {}
func (Failed) event()        {}
func (SpoolBack) event()     {}
func (Triggered) event()     {}
func (Reloaded) event()      {}
func (Ordered) event()       {}
func (HeldThread) event()    {}
func (Lifted) event()        {}
func (Restored) event()      {}
func (Stopping) event()      {}
