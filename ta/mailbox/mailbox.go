// Package mailbox is the agent of local delivery. The user word of a recipient
// says where its mail goes, once double quotes and leading backslashes are
// stripped:
//
//	|command    to a shell command, run with the privilege of the address
//	/file       to a file, written with the privilege of the address
//	user        to the user's mailbox, as that user
//
// The privilege is the last word of the quad, the uid on whose word the address
// is there; mail from anywhere has that of nobody, and nobody may neither run
// commands nor write files.
//
// A mailbox is an mbox file or a Maildir. Options.Place says which and where.
//
// Run as root, the agent opens no file of a user's. Each delivery is a process
// of its own, this program once more, which is that user from its first
// instruction on:
//
//	agent (root)                     helper (uid, gid and groups of the user)
//	finds the account
//	opens the message file
//	starts the helper ─────────────► message file on fd 0, order on fd 3
//	                                 opens, checks, locks, writes, fsyncs
//	reports, marks     ◄───────────── outcome on fd 4
//
// A thread with another file system uid would save the fork and not the risk:
// it keeps root's capabilities, with them root's exemption from quotas, and one
// goroutine on the wrong thread is root again. A process that has given up all
// four uids cannot take them back, and what kills it kills one delivery.
//
// Where nothing changes hands (an ordinary user's own mail, root's own) the
// agent does the work itself, by the same code.
package mailbox

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// Options say where mail goes and how. Only Place is needed.
type Options struct {
	Place Place
	// Decode turns quoted-printable text into 8-bit text.
	Decode bool
	// TouchAccess lets delivery change an mbox's access time, by which
	// programs tell whether there is new mail.
	TouchAccess bool
	// FatalQuota makes a user over quota a permanent failure.
	FatalQuota bool
	// LockWait is how long a mailbox may be locked by others before the
	// recipient is deferred; 0: not at all.
	LockWait time.Duration
	// TimeLimit is how long a command or a helper may take; 0: 15 minutes.
	TimeLimit time.Duration
	// Domain completes names in Delivered-To; "": the host's name.
	Domain string
	// RootAs names the user by whom commands and files of privilege 0 are
	// done; "": by root.
	RootAs string
	// Log is a file that gets a line for each delivery, or "".
	Log string
	// Environ is what every command has in its environment, NAME=value.
	Environ []string
}

// Agent is the agent. Its Deliver goes into a ta.Server. The functions are
// what it asks of the world; New gives those of the system.
type Agent struct {
	Options
	// ByName and ByUID find an account; the error is ta.ErrNoAccount or temporary.
	ByName func(name string) (*ta.Account, error)
	ByUID  func(uid int) (*ta.Account, error)
	Now    func() time.Time
	Warn   func(line string) // for the scheduler's log

	host   string // for unique names
	uid    int    // we act as
	helper helper
}

// defaultLimit is Options.TimeLimit when it is 0.
const defaultLimit = 15 * time.Minute

// New makes an agent that asks the system.
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
	if o.TimeLimit == 0 {
		o.TimeLimit = defaultLimit
	}
	// What whoever started us left open is nothing for commands.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	a := &Agent{
		Options: o,
		ByName:  ta.AccountByName,
		ByUID:   ta.AccountByUID,
		Now:     time.Now,
		host:    host,
		uid:     os.Geteuid(),
		helper:  helper{path: "/proc/self/exe", args: []string{"mailbox", HelperArg}},
	}
	if o.RootAs != "" {
		if _, err := a.ByName(o.RootAs); err != nil {
			return nil, fmt.Errorf("user %q for privilege 0: %w", o.RootAs, err)
		}
	}
	return a, nil
}

// Deliver settles all recipients of m. It may be called by several goroutines.
// What is delivered is reported at once; failures wait for one write of
// diagnostics.
func (a *Agent) Deliver(m *ta.Message) {
	others := map[*ta.Recipient]ta.Result{}
	for i := range m.Recipients {
		r := &m.Recipients[i]
		began := a.Now()
		out := a.deliver(m, r)
		res := out.result()
		res.Began = began
		if res.Status != ta.OK {
			others[r] = res
			continue
		}
		a.log(m, out)
		r.Report(res)
	}
	m.ReportRest(func(r *ta.Recipient) ta.Result { return others[r] })
}

// deliver finds out what a recipient's address is, and delivers to it.
func (a *Agent) deliver(m *ta.Message, r *ta.Recipient) outcome {
	to, err := a.target(r)
	if err != nil {
		return failed(err, a.FatalQuota)
	}
	l, err := a.letter(m, r, to)
	if err != nil {
		return failed(err, a.FatalQuota)
	}
	switch to.kind {
	case toCommand:
		return a.run(m, r, job{to, l})
	case toFile:
		if to.name == os.DevNull {
			return outcome{Status: ta.OK, Name: os.DevNull}
		}
	}
	return a.store(m, to, l)
}

// target is where a recipient's mail goes, and as whom.
type target struct {
	address
	*ta.Account
	// path is the mailbox or file; a Maildir if it ends in a slash.
	path string
	// home says that the path is below the user's home directory, where root
	// has no business.
	home bool
}

// target resolves an address: the account, and the path of a mailbox.
func (a *Agent) target(r *ta.Recipient) (target, error) {
	to := target{address: parseAddress(r.User)}
	var err error
	if to.kind == toCommand && to.name == "" {
		return to, &failure{ta.Error, "5.1.3 (bad address)", fmt.Errorf("the command of %q is empty", r.User)}
	}
	if to.kind != toUser {
		to.path = to.name
		to.Account, err = a.privileged(r, to.kind)
	} else if to.Account, err = a.user(&to.address); err == nil {
		to.path, to.home, err = a.Place.find(to)
	}
	if err != nil {
		return to, err
	}
	if a.uid != 0 && to.UID != a.uid {
		return to, &failure{ta.Deferred, "4.3.5 (agent is not root)", fmt.Errorf(
			"this agent runs as user %d and cannot act as %q (user %d): only root can deliver to others",
			a.uid, to.Name, to.UID)}
	}
	return to, nil
}

// user finds the account of a mailbox.
func (a *Agent) user(to *address) (*ta.Account, error) {
	acc, err := a.ByName(to.name)
	if errors.Is(err, ta.ErrNoAccount) && to.name != "" && to.name[0] >= 'A' && to.name[0] <= 'Z' {
		to.name = lower(to.name)
		acc, err = a.ByName(to.name)
	}
	switch {
	case errors.Is(err, ta.ErrNoAccount):
		return nil, &failure{ta.Error, "5.1.1 (no such user)", fmt.Errorf("no such user: %q", to.name)}
	case err != nil:
		return nil, &failure{ta.Deferred, "4.3.0", fmt.Errorf("look up user %q: %w", to.name, err)}
	}
	return acc, nil
}
