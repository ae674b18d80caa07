package mailbox

// This file delivers to a mailbox or file, and has the delivery helper: a process
// that does so as the user.

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

// request is one delivery to a mailbox or file, as the helper reads it. Names and
// headers are bytes, because they need not be UTF-8.
type request struct {
	Path    []byte // a Maildir if it ends in a slash
	File    bool   // named by the address, not a user's mailbox
	Message *message
	Host    string // of this machine
	// LockWait, TouchAccess and FatalQuota are those of Options.
	LockWait    time.Duration
	TouchAccess bool
	FatalQuota  bool
}

// do carries out the request as the user of this process.
func (req *request) do() outcome {
	deliver := appendMbox
	if !req.File && strings.HasSuffix(string(req.Path), "/") {
		deliver = deliverMaildir
	}
	out, err := deliver(req)
	if err != nil {
		return failed(err, req.FatalQuota)
	}
	out.Status = ta.OK
	return out
}

// store delivers to a mailbox or file, as its owner.
func (a *Agent) store(to target, msg *message) outcome {
	req := &request{
		Path: []byte(to.path), File: to.kind == toFile, Message: msg, Host: a.host,
		LockWait: a.LockWait, TouchAccess: a.TouchAccess, FatalQuota: a.FatalQuota,
	}
	if to.UID == a.uid {
		if a.uid == 0 {
			if err := checkRootDelivery(req); err != nil {
				return failed(err, a.FatalQuota)
			}
		}
		return req.do()
	}
	gid := to.GID
	if to.kind == toUser && !to.home {
		var err error
		if gid, err = prepare(req, to.Account); err != nil {
			return failed(fmt.Errorf("make mailbox: %w", err), a.FatalQuota)
		}
	}
	return a.helper.run(req, to.Account.Credential(gid), a.LockWait+a.MailboxLimit)
}

// HelperArg, as its only argument, makes the program a delivery helper
// (RunHelper).
const HelperArg = "--deliver-one"

// The descriptors of a helper, besides the message file as its standard input
// and the scheduler's log as its standard error.
const (
	requestFD = 3
	outcomeFD = 4
)

// maxOutcome is how many bytes of a helper's outcome are read.
const maxOutcome = 64 << 10

// RunHelper is the main function of a helper: it reads a request, carries it out
// and writes the outcome. It returns the exit status.
func RunHelper() int {
	// This process may have a group that its user does not have, so that user
	// must not be able to trace it.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	unix.Umask(0o022)
	var req request
	if err := json.NewDecoder(os.NewFile(requestFD, "request")).Decode(&req); err != nil || req.Message == nil {
		fmt.Fprintf(os.Stderr, "# mailbox: no request (%v)\n", err)
		return ta.ExitUsage
	}
	req.Message.file = os.Stdin
	if err := json.NewEncoder(os.NewFile(outcomeFD, "outcome")).Encode(req.do()); err != nil {
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

// run carries out a request in a process that has the given credential.
func (h helper) run(req *request, as *syscall.Credential, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.path)
	cmd.Args, cmd.Env, cmd.Dir = h.args, append([]string{}, h.env...), "/"
	input, err := messageInput(req.Message.file)
	if err != nil {
		return failed(fmt.Errorf("message file: %w", err), false)
	}
	defer input.Close()
	cmd.Stdin, cmd.Stderr = input, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setsid: true}
	out, err := exchange(cmd, req)
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

// messageInput returns the message file that ta.Message.Body has opened, as the
// standard input of a process. The caller closes it.
func messageInput(file io.ReaderAt) (*os.File, error) {
	open, ok := file.(interface{ FD() int })
	if !ok {
		return nil, fmt.Errorf("a %T has no descriptor", file)
	}
	fd, err := unix.FcntlInt(uintptr(open.FD()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "message"), nil
}

// exchange starts a helper, writes its request and reads the outcome.
func exchange(cmd *exec.Cmd, req *request) (out outcome, err error) {
	requestRead, requestWrite, err := os.Pipe()
	if err != nil {
		return out, err
	}
	defer requestWrite.Close()
	outcomeRead, outcomeWrite, err := os.Pipe()
	if err != nil {
		_ = requestRead.Close()
		return out, err
	}
	defer outcomeRead.Close()
	cmd.ExtraFiles = []*os.File{requestRead, outcomeWrite}
	err = cmd.Start()
	_ = requestRead.Close()
	_ = outcomeWrite.Close()
	if err != nil {
		return out, fmt.Errorf("start the delivery helper: %w", err)
	}
	// If the helper does not read its request, cmd.Wait has the better error.
	_ = json.NewEncoder(requestWrite).Encode(req)
	_ = requestWrite.Close()
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
