// Package sm is an agent that gives mail to programs, one run for each message,
// in the manner of sendmail's mailers: sm(8), and sm.conf(5) for the file that
// says how each program is run.
//
// A line of that file is a Mailer: flags, program, arguments. An agent works
// for one of them. For each message it
//
//	groups   the recipients that one run can serve: same sender, header, host
//	         and user to run as; without flag m each recipient alone
//	writes   the message for that group into a file without a name, in the form
//	         that the flags ask for
//	runs     the program with that file as its standard input, as the
//	         recipient's user, for a limited time
//	reports  what the exit code means, with what the program printed
//
// The message is complete in its file before the program starts. So a program
// never reads half a message when the agent is killed, and it is no error if a
// program does not read its input.
package sm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/ta"
)

// DefaultLimit is how long a run of a program may take.
const DefaultLimit = 30 * time.Minute

// Agent is the agent. Its Deliver goes into a ta.Server.
type Agent struct {
	Mailer *Mailer
	Limit  time.Duration // of a run; 0 means no limit
	Grace  time.Duration // from SIGTERM to SIGKILL at the limit, and for output that stays open

	Host string // the name of this machine
	UID  int    // effective uid of the agent
	// Account finds the user of a uid.
	Account func(uid int) (*ta.Account, error)
	Now     func() time.Time
}

// New returns an agent that uses this machine's name, users and clock.
func New(m *Mailer) *Agent {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	// Programs must not inherit descriptors that our parent left open.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	return &Agent{
		Mailer: m, Limit: DefaultLimit, Grace: 5 * time.Second,
		Host: host, UID: os.Geteuid(), Account: findAccount, Now: time.Now,
	}
}

// Deliver runs the program for all recipients of m. It may be called by
// several goroutines.
func (a *Agent) Deliver(m *ta.Message) {
	if a.Mailer.Unsupported != "" {
		m.ReportRest(func(*ta.Recipient) ta.Result { return ta.Failed("4.3.5", a.Mailer.refusal()) })
		return
	}
	var safe []*ta.Recipient
	for i := range m.Recipients {
		r := &m.Recipients[i]
		if why := a.Mailer.unsafe(a.address(r)); why != "" {
			r.Report(ta.Failed("5.1.3", why))
			continue
		}
		safe = append(safe, r)
	}
	for _, group := range a.groups(safe) {
		began := a.Now()
		result := a.deliver(m, group)
		result.Began = began
		for _, r := range group {
			r.Report(result)
		}
	}
}

const (
	// maxGroup is the largest number of recipients in one run.
	maxGroup = 1000
	// maxGroupBytes is the largest sum of the lengths of their addresses. Every
	// system accepts some 100 kB of arguments.
	maxGroupBytes = 64 << 10
)

// groups puts together the recipients of one run, in the order of the file.
func (a *Agent) groups(rs []*ta.Recipient) (groups [][]*ta.Recipient) {
	if a.Mailer.Flags&Many == 0 {
		for _, r := range rs {
			groups = append(groups, []*ta.Recipient{r})
		}
		return groups
	}
	// shared is what the recipients of a group have in common.
	type shared struct {
		from       ctlfile.Address
		header     int64
		host, user string
	}
	type size struct{ index, bytes int } // of a group that takes more recipients
	open := map[shared]*size{}
	for _, r := range rs {
		key := shared{from: r.From, header: r.Header, host: strings.ToLower(r.Host)}
		if a.Mailer.Flags&OwnUser == 0 {
			key.user = r.Privilege
		}
		group := open[key]
		if group == nil || len(groups[group.index]) >= maxGroup || group.bytes+len(r.User) > maxGroupBytes {
			group = &size{index: len(groups)}
			open[key] = group
			groups = append(groups, nil)
		}
		groups[group.index] = append(groups[group.index], r)
		group.bytes += len(r.User)
	}
	return groups
}

// deliver runs the program once and returns the one result of a group.
func (a *Agent) deliver(m *ta.Message, group []*ta.Recipient) ta.Result {
	as, err := a.runAs(group[0])
	if err != nil {
		return ta.Failed("4.3.5", err.Error())
	}
	body, err := m.Body()
	if err != nil {
		return ta.Failed("4.3.0", fmt.Sprintf("read the message: %v", err))
	}
	return a.feed(&message{agent: a, group: group, body: body}, as)
}

// feed writes the message into a file and runs the program on it.
func (a *Agent) feed(msg *message, as user) ta.Result {
	uid, gid := as.UID, as.GID
	if as.own {
		uid, gid = -1, -1
	}
	input, err := ta.Input(msg.write, uid, gid)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ta.Failed("4.3.1", err.Error())
	case err != nil:
		return ta.Failed("4.3.0", err.Error())
	}
	defer func() { _ = input.Close() }()

	addresses := make([]address, len(msg.group))
	for i, r := range msg.group {
		addresses[i] = a.address(r)
	}
	program := ta.Program{Path: a.Mailer.Program, Args: a.Mailer.argv(addresses), Env: environment(as), Input: input,
		Limit: a.Limit, Grace: a.Grace}
	if !as.own {
		// A program of another user could write input into a terminal of ours.
		program.As = as.Credential(as.GID)
	}
	return program.Run()
}
