package mailbox

// This file has the delivery to a mailbox or file, and the delivery helper: a
// process that does it as the user.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// order is one delivery to a mailbox or file, as the helper reads it. Names and
// headers are bytes, because they need not be UTF-8.
type order struct {
	Path    []byte // a Maildir if it ends in a slash
	File    bool   // named by the address, not a user's mailbox
	Message *message
	Host    string // of this machine
	// LockWait, TouchAccess and FatalQuota are those of Options.
	LockWait    time.Duration
	TouchAccess bool
	FatalQuota  bool
}

// do carries out the order as the user of this process.
func (o *order) do() outcome {
	deliver := appendMbox
	if !o.File && strings.HasSuffix(string(o.Path), "/") {
		deliver = deliverMaildir
	}
	out, err := deliver(o)
	if err != nil {
		return failed(err, o.FatalQuota)
	}
	out.Status = ta.OK
	return out
}

// store delivers to a mailbox or file, as its owner.
func (a *Agent) store(to target, msg *message) outcome {
	o := &order{
		Path: []byte(to.path), File: to.kind == toFile, Message: msg, Host: a.host,
		LockWait: a.LockWait, TouchAccess: a.TouchAccess, FatalQuota: a.FatalQuota,
	}
	if to.UID == a.uid {
		if a.uid == 0 {
			if err := checkRootDelivery(o); err != nil {
				return failed(err, a.FatalQuota)
			}
		}
		return o.do()
	}
	gid := to.GID
	if to.kind == toUser && !to.home {
		var err error
		if gid, err = prepare(o, to.Account); err != nil {
			return failed(fmt.Errorf("make mailbox: %w", err), a.FatalQuota)
		}
	}
	return a.helper.run(o, to.Account.Credential(gid), a.LockWait+a.MailboxLimit)
}

// HelperArg, as its only argument, makes the program a delivery helper (Help).
const HelperArg = "--deliver-one"

// The descriptors of a helper, besides the message file as its standard input
// and the scheduler's log as its standard error.
const (
	orderFD   = 3
	outcomeFD = 4
)

// maxOutcome is how many bytes of a helper's outcome are read.
const maxOutcome = 64 << 10

// Help is the main function of a helper: it reads an order, carries it out and
// writes the outcome. It returns the exit status.
func Help() int {
	// A process that may have a group which its user has not must not be traced
	// by that user.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	unix.Umask(0o022)
	var o order
	if err := json.NewDecoder(os.NewFile(orderFD, "order")).Decode(&o); err != nil || o.Message == nil {
		fmt.Fprintf(os.Stderr, "# mailbox: no order (%v)\n", err)
		return ta.ExitUsage
	}
	o.Message.file = os.Stdin
	if err := json.NewEncoder(os.NewFile(outcomeFD, "outcome")).Encode(o.do()); err != nil {
		return ta.ExitIOErr
	}
	return ta.ExitOK
}

// helper says how a delivery helper is started.
type helper struct {
	path string
	args []string
	env  []string
}

// run carries out an order in a process of its own, with the credential as.
func (h helper) run(o *order, as *syscall.Credential, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.path)
	cmd.Args, cmd.Env, cmd.Dir = h.args, append([]string{}, h.env...), "/"
	cmd.Stdin, cmd.Stderr = o.Message.file.(*os.File), os.Stderr // as ta.Message opens it
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setsid: true}
	out, err := exchange(cmd, o)
	switch {
	case out.Status == ta.OK || out.Status == ta.Error || out.Status == ta.Deferred:
		return out // whatever happened to the process after that
	case ctx.Err() != nil:
		err = fmt.Errorf("the delivery took more than %v", limit)
	case err == nil:
		err = fmt.Errorf("the delivery helper wrote status %d", out.Status)
	}
	return failed(&failure{ta.Deferred, "4.3.0", err}, false)
}

// exchange starts a helper, writes its order and reads the outcome.
func exchange(cmd *exec.Cmd, o *order) (out outcome, err error) {
	orderRead, orderWrite, err := os.Pipe()
	if err != nil {
		return out, err
	}
	defer orderWrite.Close()
	outcomeRead, outcomeWrite, err := os.Pipe()
	if err != nil {
		_ = orderRead.Close()
		return out, err
	}
	defer outcomeRead.Close()
	cmd.ExtraFiles = []*os.File{orderRead, outcomeWrite}
	err = cmd.Start()
	_ = orderRead.Close()
	_ = outcomeWrite.Close()
	if err != nil {
		return out, fmt.Errorf("start the delivery helper ended: %w", err)
	}
	// If the helper does not read its order, cmd.Wait has the better error.
	_ = json.NewEncoder(orderWrite).Encode(o)
	_ = orderWrite.Close()
	answer, _ := io.ReadAll(io.LimitReader(outcomeRead, maxOutcome))
	ended := cmd.Wait()
	switch err := json.Unmarshal(answer, &out); {
	case err == nil:
		return out, nil
	case ended != nil:
		return outcome{}, fmt.Errorf("the delivery helper ended: %w", ended)
	}
	return outcome{}, fmt.Errorf("the delivery helper wrote %.100q", answer)
}
