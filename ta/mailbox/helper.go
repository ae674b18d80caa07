package mailbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// HelperArg as its only argument makes the program a helper: Help.
const HelperArg = "--deliver-one"

// The descriptors of a helper besides the message file on its standard input
// and the log on its standard error.
const (
	orderFD   = 3
	outcomeFD = 4
)

// maxOutcome is how many bytes of a helper's answer are read.
const maxOutcome = 64 << 10

// Help is the helper's whole life: it reads an order, carries it out and
// answers. It returns the exit status.
func Help() int {
	// Nobody looks into, or speaks for, a process that may have a group lent.
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	signal.Ignore(syscall.SIGXFSZ, syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT)
	unix.Umask(0o022)
	var o order
	if err := json.NewDecoder(os.NewFile(orderFD, "order")).Decode(&o); err != nil || o.Letter == nil {
		fmt.Fprintf(os.Stderr, "# mailbox: no order (%v)\n", err)
		return ta.ExitUsage
	}
	o.Letter.file = os.Stdin
	if err := json.NewEncoder(os.NewFile(outcomeFD, "outcome")).Encode(o.do()); err != nil {
		return ta.ExitIOErr
	}
	return ta.ExitOK
}

// helper is how to start one.
type helper struct {
	path string
	args []string
	env  []string
}

// run has an order carried out by a process of its own.
func (h helper) run(o *order, as *syscall.Credential, limit time.Duration) outcome {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.path)
	cmd.Args, cmd.Env, cmd.Dir = h.args, append([]string{}, h.env...), "/"
	cmd.Stdin, cmd.Stderr = o.Letter.file.(*os.File), os.Stderr // as ta.Message opens it
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setsid: true}
	out, err := converse(cmd, o)
	switch {
	case out.Status == ta.OK || out.Status == ta.Error || out.Status == ta.Deferred:
		return out // whatever became of it after that
	case ctx.Err() != nil:
		err = fmt.Errorf("the delivery took more than %v", limit)
	case err == nil:
		err = fmt.Errorf("the delivering process answered status %d", out.Status)
	}
	return failed(&failure{ta.Deferred, "4.3.0", err}, false)
}

// converse starts a helper, tells it its order and hears what came of it.
func converse(cmd *exec.Cmd, o *order) (out outcome, err error) {
	orders, tell, err := os.Pipe()
	if err != nil {
		return out, err
	}
	defer tell.Close()
	hear, answers, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return out, err
	}
	defer hear.Close()
	cmd.ExtraFiles = []*os.File{orders, answers}
	err = cmd.Start()
	_ = orders.Close()
	_ = answers.Close()
	if err != nil {
		return out, fmt.Errorf("start the delivering process: %w", err)
	}
	// Its end, which cmd.Wait tells, says more than that it did not listen.
	_ = json.NewEncoder(tell).Encode(o)
	_ = tell.Close()
	answer, _ := io.ReadAll(io.LimitReader(hear, maxOutcome))
	ended := cmd.Wait()
	switch err := json.Unmarshal(answer, &out); {
	case err == nil:
		return out, nil
	case ended != nil:
		return outcome{}, fmt.Errorf("the delivering process ended: %w", ended)
	}
	return outcome{}, fmt.Errorf("the delivering process answered %.100q", answer)
}
