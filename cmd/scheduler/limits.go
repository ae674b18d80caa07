package main

// Limits of the scheduler's own process: descriptors, groups, umask, priority.

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ownFiles is how many descriptors the scheduler keeps for itself: an idle
// scheduler has 27 open, its workers and sweeps need up to 20 more, and queries
// need some. agentFiles is how many it needs for each agent: the socket, the
// standard error, and the pidfd with which it signals the agent and waits for it.
const (
	ownFiles   = 64
	agentFiles = 3
)

// ownLimits drops root's supplementary groups and raises the limit on open files
// to its maximum. It returns how many agents that limit allows.
func ownLimits() (maxAgents int, err error) {
	if os.Geteuid() == 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return 0, fmt.Errorf("dropping supplementary groups: %w", err)
		}
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("getting the limit on open files: %w", err)
	}
	if files.Cur < files.Max {
		files.Cur = files.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
			return 0, fmt.Errorf("raising the limit on open files: %w", err)
		}
	}
	return max(1, (int(min(files.Cur, 1<<20))-ownFiles)/agentFiles), nil
}

// ownUmask ensures that group and others cannot write the files that the
// scheduler and its agents create. A stricter umask stays.
func ownUmask() {
	syscall.Umask(syscall.Umask(0o022) | 0o022)
}

// ownPriority applies sysnice, which is added to the current priority of the
// process, and syspriority, which is absolute.
func ownPriority(nice, priority *int) error {
	if nice == nil && priority == nil {
		return nil
	}
	value := 0
	if nice != nil {
		raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			return fmt.Errorf("sysnice: %w", err)
		}
		value = 20 - raw + *nice // the system call returns 20 minus the value
	}
	if priority != nil {
		value = *priority
	}
	// On Linux each thread has a priority, which new threads inherit.
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("setting the priority: %w", err)
	}
	for _, t := range threads {
		id, _ := strconv.Atoi(t.Name())
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, value); err != nil && err != syscall.ESRCH {
			return fmt.Errorf("setting the priority to %d: %w", value, err)
		}
	}
	return nil
}
