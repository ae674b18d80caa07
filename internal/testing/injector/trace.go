//go:build linux && amd64

package injector

// The tracer: one thread of ours that starts a program, waits for its stops and
// those of its children, and lets them go on.

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Action says what happens to a call. The zero value lets it pass.
type Action struct {
	// Error makes the call fail without effect.
	Error unix.Errno
	// Half makes a write write half of its bytes.
	Half bool
	// Kill kills the process with SIGKILL: before the call or, with Half, after it.
	Kill bool
	// KillAll kills the program and all its children in the same way.
	KillAll bool
}

// Options name a program and decide what happens to its calls.
type Options struct {
	// Command is the program. Its standard files are nil or of type *os.File, and its
	// SysProcAttr is nil.
	Command *exec.Cmd
	// Root is the directory below which calls count. It is absolute and has no
	// symbolic links in it.
	Root string
	// Decide is asked about every call, by one goroutine for each program started.
	Decide func(Call) Action
}

// Process is a traced program.
type Process struct {
	PID     int
	done    chan struct{}
	status  unix.WaitStatus
	stopped error
}

// Start starts a program. All its processes are killed when ours ends.
func Start(o Options) (*Process, error) {
	if err := startThroughBegin(o.Command); err != nil {
		return nil, err
	}
	t := &tracer{root: strings.TrimSuffix(o.Root, "/"), decide: o.Decide, threads: map[int]*process{}, processes: map[int]*process{}}
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The kernel knows the tracer as a thread. It ends with this goroutine,
		// because it is not unlocked.
		runtime.LockOSThread()
		err := t.start(o.Command)
		p.PID = t.pid
		started <- err
		if err != nil {
			return
		}
		p.stopped = t.loop(func(status unix.WaitStatus) {
			p.status = status
			close(p.done)
		})
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Done is closed when the program itself has ended; its children may still run.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the program has ended.
func (p *Process) Wait() unix.WaitStatus {
	<-p.done
	return p.status
}

// Signal sends a signal to the program, unless it has ended.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return unix.Kill(p.PID, s)
	}
}

// process is a process that is traced.
type process struct {
	pid     int
	program string
}

// tracer traces a program and its children.
type tracer struct {
	root      string
	decide    func(Call) Action
	pid       int
	threads   map[int]*process
	processes map[int]*process
	afterHalf map[int]Action // threads that are in a call after which they are killed
}

const traceOptions = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACEEXEC |
	unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// starting is held during a start: a child must not inherit the descriptors of another
// child that is being started.
var starting sync.Mutex

func (t *tracer) start(cmd *exec.Cmd) error {
	t.afterHalf = map[int]Action{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	starting.Lock()
	err := cmd.Start()
	starting.Unlock()
	if err != nil {
		if os.IsPermission(err) {
			err = fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		return err
	}
	t.pid = cmd.Process.Pid
	_ = cmd.Process.Release() // the tracer waits for it
	var status unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &status, unix.WALL, nil); err != nil {
		return fmt.Errorf("waiting for %s: %w", cmd.Path, err)
	}
	if !status.Stopped() {
		return fmt.Errorf("%w: %s ended at once", ErrForbidden, cmd.Path)
	}
	if err := unix.PtraceSetOptions(t.pid, traceOptions); err != nil {
		_ = unix.Kill(t.pid, unix.SIGKILL)
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	t.thread(t.pid)
	return unix.PtraceCont(t.pid, 0)
}

// thread returns the process of a thread, which may be new.
func (t *tracer) thread(tid int) *process {
	if p := t.threads[tid]; p != nil {
		return p
	}
	pid := processOf(tid)
	p := t.processes[pid]
	if p == nil {
		p = &process{pid: pid, program: programOf(pid)}
		t.processes[pid] = p
	}
	t.threads[tid] = p
	return p
}

func processOf(tid int) int {
	f, err := os.Open("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return tid
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "Tgid:"); ok {
			if pid, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
				return pid
			}
		}
	}
	return tid
}

func programOf(pid int) string {
	link, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return filepath.Base(link)
}

// loop lets the processes run until all have ended. ended is called when the program
// itself has ended.
func (t *tracer) loop(ended func(unix.WaitStatus)) error {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err // ECHILD: no process is left
		}
		if !status.Stopped() {
			delete(t.threads, tid)
			delete(t.processes, tid)
			delete(t.afterHalf, tid)
			if tid == t.pid {
				ended(status)
			}
			continue
		}
		t.stop(tid, status)
	}
}

// stop handles a stop of a thread and lets it go on.
func (t *tracer) stop(tid int, status unix.WaitStatus) {
	_, known := t.threads[tid]
	p := t.thread(tid)
	signal := status.StopSignal()
	switch {
	case signal == unix.SIGTRAP|0x80: // the end of a call
		if a, ok := t.afterHalf[tid]; ok {
			delete(t.afterHalf, tid)
			t.kill(p, a)
		}
		signal = 0
	case signal == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
		if t.call(tid, p) {
			_ = unix.PtraceSyscall(tid, 0)
			return
		}
		signal = 0
	case signal == unix.SIGTRAP && status.TrapCause() == unix.PTRACE_EVENT_EXEC:
		p.program = programOf(p.pid)
		signal = 0
	case signal == unix.SIGTRAP: // a thread or a process was made, or a first exec
		signal = 0
	case signal == unix.SIGSTOP && !known: // a new one begins
		signal = 0
	}
	// This fails only if the thread was killed meanwhile.
	_ = unix.PtraceCont(tid, int(signal))
}

// call decides about a call. toEnd says that the tracer wants to know when it ends.
func (t *tracer) call(tid int, p *process) (toEnd bool) {
	var regs unix.PtraceRegs
	if unix.PtraceGetRegs(tid, &regs) != nil {
		return false
	}
	c, ok := t.describe(tid, p, &regs)
	if !ok {
		return false
	}
	a := t.decide(c)
	switch {
	case a.Half && c.Writes():
		regs.Rdx = c.size / 2
		_ = unix.PtraceSetRegs(tid, &regs)
		if a.Kill || a.KillAll {
			t.afterHalf[tid] = a
			return true
		}
	case a.Kill || a.KillAll:
		t.kill(p, a)
	case a.Error != 0:
		regs.Orig_rax = ^uint64(0) // no call
		regs.Rax = uint64(-int64(a.Error))
		_ = unix.PtraceSetRegs(tid, &regs)
	}
	return false
}

func (t *tracer) kill(p *process, a Action) {
	if !a.KillAll {
		_ = unix.Kill(p.pid, unix.SIGKILL)
		return
	}
	for pid := range t.processes {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}
