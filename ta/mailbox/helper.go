package mailbox

// This file delivers to a mailbox or file, and has the delivery helper: a process
// that does so as the user.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	Size    int64  // of the text of the message, which follows the request
	Host    string // of this machine
	// LockWait, TouchAccess and FatalQuota are those of Options.
	LockWait    time.Duration
	TouchAccess bool
	FatalQuota  bool
	// UID is the user that a helper becomes before it looks at Path; never 0.
	UID int
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

// HelperArg, as its only argument, makes the program a delivery helper
// (RunHelper).
const HelperArg = "--deliver-one"

// maxOutcome is how many bytes of a helper's output are read.
const maxOutcome = 64 << 10

// RunHelper is the main function of a helper: it reads a request, carries it out
// and writes the outcome. It returns the exit status. Its standard input is the
// request and then the text of the message.
func RunHelper() int {
	// The helper may have a group that its user does not have, and mail that the
	// user may not see. It starts as root, so that the user can neither trace it nor
	// take its descriptors (pidfd_getfd(2)) before this call.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	unix.Umask(0o022)
	req, err := readRequest(bufio.NewReaderSize(os.Stdin, 64<<10))
	if err == nil {
		err = become(req.UID)
	}
	out := outcome{}
	if err != nil {
		out = failed(fmt.Errorf("delivery helper: %w", err), false)
	} else {
		out = req.do()
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		return ta.ExitIOErr
	}
	return ta.ExitOK
}

// readRequest reads a request. The text of its message follows in r.
func readRequest(r *bufio.Reader) (*request, error) {
	b, err := r.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	req := &request{}
	if err := json.Unmarshal(b, req); err != nil || req.Message == nil {
		return nil, fmt.Errorf("malformed request: %w", errors.Join(err, syscall.EINVAL))
	}
	req.Message.input, req.Message.Length = r, req.Size
	return req, nil
}

// become gives up root for good, in all threads of this process. Its groups are
// those of the user already.
func become(uid int) error {
	if uid <= 0 {
		return fmt.Errorf("uid %d", uid)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	// A change of the uid sets this to fs.suid_dumpable, which is 0 or 2 unless
	// somebody debugs the system.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	// Capabilities stay if the agent was started with the secure bit
	// no-setuid-fixup.
	var caps [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	if caps[0].Permitted|caps[1].Permitted != 0 {
		return errors.New("it would keep capabilities of root")
	}
	return nil
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
	as := to.Account.Credential(gid)
	as.Uid, req.UID = 0, to.UID
	return a.helper.run(req, as, a.LockWait+a.MailboxLimit)
}

// helper says how a delivery helper is started.
type helper struct {
	path string
	args []string
	env  []string
}

// run carries out a request in another process, which starts with the given
// credential.
func (h helper) run(req *request, as *syscall.Credential, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.path)
	cmd.Args, cmd.Env, cmd.Dir = h.args, append([]string{}, h.env...), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setsid: true}
	out, err := exchange(cmd, req)
	switch {
	case err == nil && (out.Status == ta.OK || out.Status == ta.Error || out.Status == ta.Deferred):
		return out // whatever happened to the process after that
	case ctx.Err() != nil:
		err = fmt.Errorf("the delivery took more than %v", limit)
	case err == nil:
		err = fmt.Errorf("the delivery helper wrote status %d", out.Status)
	}
	return failed(&failure{ta.Deferred, "4.3.0", err}, false)
}

// exchange starts a helper, writes its request and the message, and reads the
// outcome.
func exchange(cmd *exec.Cmd, req *request) (out outcome, err error) {
	inputRead, inputWrite, err := os.Pipe()
	if err != nil {
		return out, err
	}
	defer inputWrite.Close()
	outcomeRead, outcomeWrite, err := os.Pipe()
	if err != nil {
		_ = inputRead.Close()
		return out, err
	}
	defer outcomeRead.Close()
	// What the Go runtime writes when it ends the process comes in place of the
	// outcome, and not into the scheduler's log.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inputRead, outcomeWrite, outcomeWrite
	err = cmd.Start()
	_ = inputRead.Close()
	_ = outcomeWrite.Close()
	if err != nil {
		return out, fmt.Errorf("start the delivery helper: %w", err)
	}
	unread := req.send(inputWrite)
	_ = inputWrite.Close()
	answer := json.NewDecoder(io.LimitReader(outcomeRead, maxOutcome))
	err = answer.Decode(&out)
	rest, _ := io.ReadAll(io.MultiReader(answer.Buffered(), io.LimitReader(outcomeRead, maxOutcome)))
	_ = outcomeRead.Close()
	ended := cmd.Wait()
	switch {
	case err == nil && out.Status == ta.OK:
		return out, nil
	case unread != nil:
		return outcome{}, unread
	case err == nil:
		return out, nil
	case ended != nil:
		return outcome{}, fmt.Errorf("the delivery helper ended: %w%s", ended, quoted(rest))
	}
	return outcome{}, fmt.Errorf("the delivery helper wrote no outcome%s", quoted(rest))
}

// quoted quotes the beginning of what a helper wrote.
func quoted(output []byte) string {
	if len(output) == 0 {
		return ""
	}
	return fmt.Sprintf(": %.100q", output)
}

// send writes a request, as a line, and the text of its message. The error is that of
// reading the message. If the helper does not read, its outcome says more.
func (req *request) send(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	msg := req.Message
	req.Size = int64(len(msg.Trace)+len(msg.Header)) + 1 + msg.Length
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	_, _ = out.Write(append(b, '\n'))
	err = msg.write(out)
	if out.Flush() != nil {
		return nil
	}
	return err
}
