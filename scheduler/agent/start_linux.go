package agent

// This file starts an agent's process: its command, environment, user, groups,
// priority and limits.

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"zsched/ta"
)

// Command converts the expanded words of a clause's command= into the fields of
// Spec. Leading words with an '=' are assignments to its environment. The next
// word is the program, below mailbin/ta (mailbin is absolute) unless it begins
// with '/'; PATH is not searched. The environment is those assignments, then the
// scheduler's TZ, then PATH, ZCONFIG and the variables of errormail(8) and xfer(8) from
// env, the values of zmailer.conf and of scheduler.cf, then ta.MarkingEnv. A variable
// assigned in the command is not set again.
func Command(words []string, mailbin string, env map[string]string) (path string, args, environ []string, err error) {
	for len(words) > 0 && strings.Contains(words[0], "=") {
		environ = append(environ, words[0])
		words = words[1:]
	}
	if len(words) == 0 {
		return "", nil, nil, errors.New("command names no program")
	}
	if path = words[0]; path == "" {
		return "", nil, nil, errors.New("command's program is an empty word")
	}
	if path[0] != '/' {
		path = filepath.Join(mailbin, "ta", path)
	}
	args = append([]string{path}, words[1:]...)

	assigned := environ
	inherit := func(name, value string, ok bool) {
		for _, a := range assigned {
			ok = ok && !strings.HasPrefix(a, name+"=")
		}
		if ok {
			environ = append(environ, name+"="+value)
		}
	}
	tz, ok := os.LookupEnv("TZ")
	inherit("TZ", tz, ok)
	for _, name := range []string{"PATH", "ZCONFIG", "STOREERRORS", "XFERNODE", "XFERNODES"} {
		value, ok := env[name]
		inherit(name, value, ok)
	}
	inherit(ta.MarkingEnv, ta.MarkingScheduler, true)
	return path, args, environ, nil
}

// start makes the process and our ends of its streams.
func start(spec Spec) (*Agent, error) {
	attr, err := attributes(spec)
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("create its socket: %w", err)
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
		return nil, fmt.Errorf("create its error pipe: %w", err)
	}
	defer unix.Close(pipe[1])
	stderr, err := polled(pipe[0], "agent's stderr")
	if err != nil {
		sock.Close()
		return nil, err
	}

	attr.Files = []uintptr{uintptr(pair[1]), uintptr(pair[1]), uintptr(pipe[1])}
	if spec.NoFile > 0 {
		spec = limitedByShell(spec)
	}
	pid, pidfd, err := fork(spec, attr)
	if err != nil {
		sock.Close()
		stderr.Close()
		return nil, err
	}
	c := &Agent{
		pid: pid, grace: spec.Grace, sock: sock, stderr: stderr, pidfd: pidfd,
		reaped: make(chan struct{}),
	}
	if c.grace == 0 {
		c.grace = Grace
	}
	c.raw, err = sock.SyscallConn()
	return c, err
}

// polled makes fd a non-blocking file, so that a goroutine that waits for it
// occupies no thread.
func polled(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make %s non-blocking: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// attributes decides the user and the groups. An agent gets none of the
// supplementary groups of a scheduler that runs as root.
func attributes(spec Spec) (*syscall.ProcAttr, error) {
	// A session of its own: keys at the scheduler's terminal, such as ^C, do not
	// signal agents, and that terminal is not an agent's controlling terminal.
	sys := &syscall.SysProcAttr{Setsid: true}
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
		if spec.FileGroup > 0 && uid != 0 {
			sys.Credential.Groups, sys.Credential.NoSetGroups = []uint32{uint32(spec.FileGroup)}, false
		}
	}
	return &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Sys: sys}, nil
}

// closeOnExec sets the close-on-exec flag of every descriptor except the standard
// streams. Those that we open have the flag already; those that our own parent
// left open may not.
func closeOnExec() { unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// fork starts the process. It has its priority from its first instruction on,
// because that is the priority of the thread that forks.
func fork(spec Spec, attr *syscall.ProcAttr) (pid int, pidfd *os.File, err error) {
	fd := -1
	attr.Sys.PidFD = &fd
	closeOnExec()
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

// setPriority gives this thread the agent's priority.
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

// limitedByShell makes the process a shell that sets its own limit of open files
// and then becomes the agent. So the agent has it from its first instruction on, whatever its
// user, and we need no capability. A program that cannot be run is left to fork, which can
// say why.
func limitedByShell(spec Spec) Spec {
	if unix.Access(spec.Path, unix.X_OK) != nil || len(spec.Args) == 0 {
		return spec
	}
	const script = `unset PWD; ulimit -S -n "$0" 2>/dev/null || ulimit -S -n "$(ulimit -H -n)"; exec "$@"`
	spec.Args = append([]string{"sh", "-c", script, strconv.FormatUint(spec.NoFile, 10), spec.Path}, spec.Args[1:]...)
	spec.Path = "/bin/sh"
	return spec
}

// explain says which part of spec an error of fork is about, as far as that can
// be found out.
func explain(spec Spec, err error) error {
	if spec.Dir != "" {
		if info, e := os.Stat(spec.Dir); e != nil {
			return fmt.Errorf("its working directory: %w", e)
		} else if !info.IsDir() {
			return fmt.Errorf("its working directory %s is not a directory", spec.Dir)
		}
	}
	if err == unix.EPERM && (spec.UID != -1 || spec.GID != -1) {
		return fmt.Errorf("become user %d, group %d: %w", spec.UID, spec.GID, err)
	}
	if err == unix.EAGAIN {
		return fmt.Errorf("fork: %w (process limit reached)", err)
	}
	return err
}
