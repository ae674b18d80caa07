// Package mailbox is the agent for local delivery. The user word of a recipient,
// without double quotes and leading backslashes, says where its mail goes:
//
//	|command    to a shell command, run with the privilege of the address
//	/file       to a file, written with the privilege of the address
//	user        to the user's mailbox, as that user
//
// The privilege is the last word of the recipient: the uid of whoever wrote the
// address, in an alias file for example. An address that came from outside has
// the privilege of nobody, who may neither run commands nor write files.
//
// A mailbox is an mbox file or a Maildir. Options.Place says which and where.
//
// An agent that runs as root never opens a user's file. It starts a delivery
// helper for each delivery: another process of this program, which becomes the
// user before it looks at any path.
//
//	agent (root)                     delivery helper
//	finds the account
//	opens the message file
//	starts the helper
//	writes the request ────────────► becomes the user: uid, gid, groups
//	and the message ───────────────► opens, checks, locks, writes, fsyncs
//	reports, marks     ◄──────────── outcome
//
// The helper starts as root, so that the user cannot trace it or take its
// descriptors before it has forbidden that. It has no descriptor of the message
// file, whose first lines are the envelope, and none of the scheduler's log.
//
// A thread with another file system uid would save the fork, but keep the risk:
// the thread has root's capabilities, so quotas do not bind it, and a goroutine
// on the wrong thread is root. A process that has given up all its uids cannot
// take them back, and if it is killed, one delivery fails.
//
// Where the agent is the user already (root, or an ordinary user's own agent),
// it delivers without a helper, by the same code.
package mailbox

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// Options say where mail goes and how. Only Place is required.
type Options struct {
	Place Place
	// TouchAccess lets a delivery change the access time of an mbox, from which
	// programs see whether there is new mail.
	TouchAccess bool
	// FatalQuota makes delivery to a user over quota fail permanently.
	FatalQuota bool
	// LockWait is how long a mailbox may be locked by others before the
	// recipient is deferred; 0: not at all.
	LockWait time.Duration
	// TimeLimit is how long a command may take, and before that, to read the message
	// for it; 0: 15 minutes.
	TimeLimit time.Duration
	// MailboxLimit is how long a delivery to a mailbox or file may take, in addition to
	// LockWait; 0: two minutes. Its user can stop a delivery helper (SIGSTOP), or send a
	// file with holes, and so occupy a session.
	MailboxLimit time.Duration
	// Domain is added to user names in Delivered-To; "": the host's name.
	Domain string
	// RootAs names the user who runs commands and writes files for addresses
	// with privilege 0; "": root.
	RootAs string
	// Log is a file that gets a line for each delivery, or "".
	Log string
	// Environ is a part of every command's environment, NAME=value.
	Environ []string
}

// Agent is the agent; its Deliver is that of a ta.Server. New sets its functions
// to those of the system.
type Agent struct {
	Options
	// ByName and ByUID find an account; the error is ta.ErrNoAccount or temporary.
	ByName func(name string) (*ta.Account, error)
	ByUID  func(uid int) (*ta.Account, error)
	Now    func() time.Time
	Warn   func(line string) // for the scheduler's log

	host   string // for unique names
	uid    int    // of this process
	helper helper
}

// The limits where Options sets none.
const (
	defaultTimeLimit    = 15 * time.Minute
	defaultMailboxLimit = 2 * time.Minute
)

// New makes an agent and checks its options.
func New(o Options) (*Agent, error) {
	if err := o.Place.check(); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	if o.Domain == "" {
		o.Domain = host
	}
	o.TimeLimit = cmp.Or(o.TimeLimit, defaultTimeLimit)
	o.MailboxLimit = cmp.Or(o.MailboxLimit, defaultMailboxLimit)
	// Commands get no descriptor that our own parent left open.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	a := &Agent{
		Options: o,
		ByName:  ta.AccountByName,
		ByUID:   ta.AccountByUID,
		Now:     time.Now,
		host:    host,
		uid:     os.Geteuid(),
		// A helper does one thing after the other.
		helper: helper{path: "/proc/self/exe", args: []string{"mailbox", HelperArg}, env: []string{"GOMAXPROCS=1"}},
	}
	if o.RootAs != "" {
		if _, err := a.ByName(o.RootAs); err != nil {
			return nil, fmt.Errorf("user %q for privilege 0: %w", o.RootAs, err)
		}
	}
	return a, nil
}

// Deliver delivers m to all its recipients. Several goroutines may call it.
// It reports each success at once, and all failures together, so that their
// diagnostics are written once.
func (a *Agent) Deliver(m *ta.Message) {
	others := map[*ta.Recipient]ta.Result{}
	done := copies{}
	for i := range m.Recipients {
		r := &m.Recipients[i]
		began := a.Now()
		out := a.deliver(m, r, done)
		res := out.result()
		res.Began = began
		if res.Status != ta.OK {
			others[r] = res
			continue
		}
		if !out.shared {
			a.log(m, out)
		}
		r.Report(res)
	}
	m.ReportRest(func(r *ta.Recipient) ta.Result { return others[r] })
}

// copies has the outcomes of a message in the mailboxes that it was delivered to. All
// addresses of a mailbox share one copy: a sender can make any number of them, such as
// bob+1 and bob+2, and fill the mailbox with copies of one message.
type copies map[copyKey]outcome

type copyKey struct {
	path string
	uid  int
	// Recipients may differ in their headers and in the sender.
	header int64
	sender int
}

// deliver delivers m to one recipient.
func (a *Agent) deliver(m *ta.Message, r *ta.Recipient, done copies) outcome {
	to, err := a.target(r)
	if err != nil {
		return failed(err, a.FatalQuota)
	}
	// Whether the message is in a loop depends on the address, so it comes first.
	msg, err := a.newMessage(m, r, to)
	if err != nil {
		return failed(err, a.FatalQuota)
	}
	if to.kind != toUser {
		return a.begin(m, r, delivery{to, msg})
	}
	key := copyKey{to.path, to.UID, r.Header, r.Sender}
	out, again := done[key]
	if !again {
		out = a.begin(m, r, delivery{to, msg})
		done[key] = out
		return out
	}
	if out.shared = true; out.Status == ta.OK {
		out.Text = "Ok, in one copy with another address of this mailbox"
	}
	return out
}

// begin delivers a message to its target.
func (a *Agent) begin(m *ta.Message, r *ta.Recipient, in delivery) outcome {
	to := in.target
	if to.kind == toFile && to.name == os.DevNull {
		return outcome{Status: ta.OK, Name: os.DevNull}
	}
	if to.kind == toCommand {
		return a.run(m, r, in)
	}
	return a.store(to, in.message)
}
