package child

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// start makes the process and our ends of its streams.
func start(spec Spec) (*Child, error) {
	attr, err := attributes(spec)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make its socket: %w", err)
	}
	// The agent's end stays blocking: agents read and write with stdio.
	defer unix.Close(pair[1])
	sock, err := polled(pair[0], "agent")
	if err != nil {
		return nil, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		sock.Close()
		return nil, fmt.Errorf("make its error pipe: %w", err)
	}
	defer unix.Close(pipe[1])
	stderr, err := polled(pipe[0], "agent's stderr")
	if err != nil {
		sock.Close()
		return nil, err
	}

	attr.Files = []uintptr{uintptr(pair[1]), uintptr(pair[1]), uintptr(pipe[1])}
	pid, pidfd, err := fork(spec, attr)
	if err != nil {
		sock.Close()
		stderr.Close()
		return nil, err
	}
	c := &Child{
		pid: pid, grace: spec.Grace, unlimited: limitFiles(pid, spec.NoFile),
		sock: sock, stderr: stderr, pidfd: pidfd,
		reaped: make(chan struct{}),
	}
	if c.grace == 0 {
		c.grace = Grace
	}
	c.raw, err = sock.SyscallConn()
	return c, err
}

// polled makes a descriptor of ours one on which goroutines can wait.
func polled(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make %s non-blocking: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// attributes settles the user and the groups. A scheduler that runs as root
// leaves none of its supplementary groups to an agent.
func attributes(spec Spec) (*syscall.ProcAttr, error) {
	sys := &syscall.SysProcAttr{}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid != 0 {
		if spec.UID != -1 && spec.UID != uid {
			return nil, fmt.Errorf("only root can run an agent as user %d; this is user %d", spec.UID, uid)
		}
		if spec.GID != -1 && spec.GID != gid {
			return nil, fmt.Errorf("only root can run an agent as group %d; this is group %d", spec.GID, gid)
		}
		return &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Sys: sys}, nil
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("find supplementary groups: %w", err)
	}
	if spec.UID != -1 || spec.GID != -1 || len(groups) > 0 {
		if spec.UID != -1 {
			uid = spec.UID
		}
		if spec.GID != -1 {
			gid = spec.GID
		}
		sys.Credential = &syscall.Credential{
			Uid: uint32(uid), Gid: uint32(gid),
			NoSetGroups: len(groups) == 0,
		}
	}
	return &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Sys: sys}, nil
}

// keepOurs makes everything but the standard streams close-on-exec. What we
// open ourselves is so already; this is for what whoever started us left open.
func keepOurs() { unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// fork makes the process, with its priority from its first instruction on: it
// is that of the thread that forks.
func fork(spec Spec, attr *syscall.ProcAttr) (pid int, pidfd *os.File, err error) {
	fd := -1
	attr.Sys.PidFD = &fd
	keepOurs()
	forkExec := func() {
		pid, err = syscall.ForkExec(spec.Path, spec.Args, attr)
		if err != nil {
			err = explain(spec, err)
		}
	}
	if spec.Nice == 0 && !spec.PrioritySet {
		forkExec()
	} else {
		done := make(chan struct{})
		go func() {
			defer close(done)
			// The thread keeps the priority, so it ends with this goroutine.
			runtime.LockOSThread()
			if err = setPriority(spec); err == nil {
				forkExec()
			}
		}()
		<-done
	}
	if err != nil {
		return 0, nil, err
	}
	if fd < 0 {
		err = errors.New("this kernel has no pidfd (Linux 5.4)")
	} else {
		pidfd, err = polled(fd, "agent's pidfd")
	}
	if err != nil {
		unix.Kill(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, 0, nil)
		return 0, nil, err
	}
	return pid, pidfd, nil
}

// setPriority gives this thread the priority that the agent shall have.
func setPriority(spec Spec) error {
	want := spec.Priority
	if !spec.PrioritySet {
		// The system call counts from 40, the least nice, down to 1.
		own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			return fmt.Errorf("find own priority: %w", err)
		}
		want = 20 - own + spec.Nice
	}
	want = min(max(want, -20), 19)
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, want); err != nil {
		return fmt.Errorf("set priority %d: %w", want, err)
	}
	return nil
}

// limitFiles sets the soft limit, within the hard one, of a process that may
// have begun to run: the limit belongs to the process, not to the thread that
// forks, which could not have it alone. Of a process of another user, or one
// that changes its user itself, the system lets us do so only with
// CAP_SYS_RESOURCE. One without the limit works too.
func limitFiles(pid int, n uint64) error {
	if n == 0 {
		return nil
	}
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit)
	if err == nil {
		limit.Cur = min(n, limit.Max)
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil)
	}
	if err != nil && err != unix.ESRCH { // ESRCH: it is gone already
		return fmt.Errorf("limit its open files to %d: %w", n, err)
	}
	return nil
}

// explain names the part of the request that an error of fork is about, as
// far as that can be told from outside.
func explain(spec Spec, err error) error {
	if spec.Dir != "" {
		if info, e := os.Stat(spec.Dir); e != nil {
			return fmt.Errorf("its working directory: %w", e)
		} else if !info.IsDir() {
			return fmt.Errorf("its working directory %s is none", spec.Dir)
		}
	}
	if err == unix.EPERM && (spec.UID != -1 || spec.GID != -1) {
		return fmt.Errorf("become user %d, group %d: %w", spec.UID, spec.GID, err)
	}
	if err == unix.EAGAIN {
		return fmt.Errorf("fork: %w (limit of processes)", err)
	}
	return err
}
