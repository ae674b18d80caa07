package main

// Limits of the scheduler's own process: descriptors, groups, umask.

import (
	"fmt"
	"os"
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
