// Package process tells whether a process that left its pid in a file, as a
// lock or in a pid file, is still running.
package process

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Exists reports whether there is a process with this pid, which may be one
// that this user may not signal.
func Exists(pid int) bool {
	return pid > 0 && unix.Kill(pid, 0) != unix.ESRCH
}

// startSlack is how much later than a file's time its writer may seem to have
// started, because both times are imprecise.
const startSlack = 2 * time.Second

// RunningSince reports whether the process with this pid runs and started
// before writtenAt, the time of the file that names it. A process that started
// later has reused the pid. A zombie does not run. If /proc does not tell, a
// process that exists counts as running.
func RunningSince(pid int, writtenAt time.Time) bool {
	if !Exists(pid) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	state, sinceBoot, ok := parseStat(stat)
	if !ok {
		return true
	}
	if state == 'Z' || state == 'X' {
		return false
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return true
	}
	startedAt := time.Now().Add(sinceBoot - time.Duration(now.Nano()))
	return startedAt.Before(writtenAt.Add(startSlack))
}

// clockTicks is the number of ticks a second in /proc, the same on every Linux
// machine.
const clockTicks = 100

// parseStat reads the state of a process and the time from boot to its start
// from /proc/<pid>/stat (proc(5)).
func parseStat(stat []byte) (state byte, sinceBoot time.Duration, ok bool) {
	// The second field is the program's name in parentheses and may hold
	// anything, parentheses too.
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[i+1:])
	const startField = 22 - 3 // among the fields after the name
	if len(fields) <= startField || len(fields[0]) != 1 {
		return 0, 0, false
	}
	n, err := strconv.ParseInt(string(fields[startField]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	return fields[0][0], time.Duration(n) * (time.Second / clockTicks), true
}
