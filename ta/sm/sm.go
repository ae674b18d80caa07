// Package sm is an agent that gives mail to programs, one run a message, as
// sendmail's mailers are run: sm(8), and sm.conf(5) for the file that says how.
//
// A line of that file is a Mailer: flags, program, arguments. The agent works
// for one of them. Of each message it
//
//	groups   the recipients that one run can serve: one sender, one header,
//	         one user to run as; without flag m each recipient alone
//	writes   the message for that group into a file without a name, converted
//	         as the flags ask (the From line, the batch SMTP around it)
//	runs     the program with that file as its standard input, as the
//	         recipient's user, for a limited time
//	reports  what the exit code says, with what the program printed
//
// The message is whole and on its own before the program starts. So nothing
// that happens to the agent gives a program half a message, and one that does
// not read its input has done nothing wrong.
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
	"zsched/ta/mime"
)

// DefaultLimit is how long a run of a program may take.
const DefaultLimit = 30 * time.Minute

// Agent is the agent. Its Deliver goes into a ta.Server.
type Agent struct {
	Mailer *Mailer
	Limit  time.Duration // of a run; 0: none
	Grace  time.Duration // from SIGTERM to SIGKILL at the limit, and for output that never ends
	// EightBit is option -8: the way ahead is 8-bit clean, and
	// quoted-printable text is decoded for it.
	EightBit bool
	// Narrow is option -Q: control characters and blanks do not survive.
	Narrow bool
	// KeepHeader is option -H: 8-bit headers are not encoded.
	KeepHeader bool

	Host string // our own name
	UID  int    // effective, of the agent
	// Account finds the user of a uid.
	Account func(uid int) (*ta.Account, error)
	Now     func() time.Time
}

// New makes an agent that asks the system.
func New(m *Mailer) *Agent {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	// What whoever started us left open is nothing for programs.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	return &Agent{
		Mailer: m, Limit: DefaultLimit, Grace: 5 * time.Second,
		Host: host, UID: os.Geteuid(), Account: findAccount, Now: time.Now,
	}
}

// Deliver runs the program for all recipients of m. It may be called by
// several goroutines.
func (a *Agent) Deliver(m *ta.Message) {
	var rest []*ta.Recipient
	for i := range m.Recipients {
		r := &m.Recipients[i]
		why := a.Mailer.unsafe(a.address(r))
		if why == "" && a.Mailer.Flags&Batch != 0 && !(validPath(smtpPath(senderOf(r))) && validPath(smtpPath(r.User))) {
			why = "an address cannot stand in an SMTP command"
		}
		if why != "" {
			r.Report(refused("5.1.3", why))
			continue
		}
		rest = append(rest, r)
	}
	for _, group := range a.groups(rest) {
		began := a.Now()
		result := a.deliver(m, group)
		result.Began = began
		for _, r := range group {
			r.Report(result)
		}
	}
}

// address is what a recipient's references stand for.
func (a *Agent) address(r *ta.Recipient) address {
	clean := func(s string) string {
		if s == "-" { // the file's word for nothing
			return ""
		}
		if a.Mailer.Flags&StripQuotes != 0 {
			return unquote(s)
		}
		return s
	}
	sender := clean(senderOf(r))
	return address{sender: sender, host: clean(r.Host), user: clean(r.User)}
}

// senderOf is the sender as in the control file, <> for nobody.
func senderOf(r *ta.Recipient) string {
	if r.From.Channel == "error" {
		return "<>"
	}
	return r.From.User
}

const (
	// maxGroup is how many recipients a run has at most.
	maxGroup = 1000
	// maxGroupBytes bounds the sum of their addresses; a system takes some
	// 100 kB of arguments at least.
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
	type key struct {
		from                       ctlfile.Address
		header                     int64
		host, user, ret, envelopes string
	}
	type run struct{ index, bytes int }
	open := map[key]*run{}
	for _, r := range rs {
		k := key{from: r.From, header: r.Header, host: strings.ToLower(r.Host)}
		if a.Mailer.Flags&OwnUser == 0 {
			k.user = r.Privilege
		}
		if a.Mailer.Flags&BatchDSN != 0 {
			k.ret, k.envelopes = r.Ret, r.EnvID
		}
		at := open[k]
		if at == nil || len(groups[at.index]) >= maxGroup || at.bytes+len(r.User) > maxGroupBytes {
			at = &run{index: len(groups)}
			open[k] = at
			groups = append(groups, nil)
		}
		groups[at.index] = append(groups[at.index], r)
		at.bytes += len(r.User)
	}
	return groups
}

// deliver serves a group, which has one result.
func (a *Agent) deliver(m *ta.Message, group []*ta.Recipient) ta.Result {
	account, err := a.runAs(group[0])
	if err != nil {
		return deferred("4.3.5", err.Error())
	}
	body, err := m.Body()
	if err != nil {
		return deferred("4.3.0", fmt.Sprintf("read the message: %v", err))
	}
	l, err := a.letter(group, body)
	switch {
	case errors.Is(err, mime.ErrConversion):
		return refused("5.6.3", err.Error())
	case err != nil:
		return deferred("4.3.0", err.Error())
	}
	result := a.feed(l, group, account)
	result.Cvt = l.plan.Cvt
	return result
}

// feed gives the letter to the program.
func (a *Agent) feed(l *letter, group []*ta.Recipient, account runner) ta.Result {
	uid, gid := account.UID, account.GID
	if account.own {
		uid, gid = -1, -1
	}
	input, err := ta.Input(l.write, uid, gid)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return deferred("4.3.1", err.Error())
	case err != nil:
		return deferred("4.3.0", err.Error())
	}
	defer func() { _ = input.Close() }()

	addresses := make([]address, len(group))
	for i, r := range group {
		addresses[i] = a.address(r)
	}
	return a.run(a.Mailer.argv(addresses), input, account).result()
}
