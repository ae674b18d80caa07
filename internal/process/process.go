// Package process reports whether a process that left its pid in a file, as a lock or
// in a pid file, is still running, to which user the process at the other end of a
// connection belongs, when it is gone, and which user has a uid. A Claim keeps a second
// process of a kind out of a postoffice.
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
// later has reused the pid. A zombie does not run. If /proc does not say, a process
// that exists counts as running. If the clock of the machine has been set forward since
// the file was written, a process may seem to have started later.
func RunningSince(pid int, writtenAt time.Time) bool {
	if !Exists(pid) {
		return false
	}
	p, known := Find(pid)
	bootedAt := bootedAt()
	if !known || bootedAt.IsZero() {
		return true
	}
	return p.PID != 0 && bootedAt.Add(p.Started).Before(writtenAt.Add(startSlack))
}

// SinceBoot returns the time since the boot of the machine, which no setting of the clock
// changes; 0 if it is not known.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// BootID returns a word that each boot of the machine has anew, or "" if it is not known.
func BootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}

// bootedAt returns the time of the boot by the clock as it is set now, or the zero time.
func bootedAt() time.Time {
	since := SinceBoot()
	if since == 0 {
		return time.Time{}
	}
	// Without the monotonic reading, with which the clock would never seem to be set.
	return time.Now().Round(0).Add(-since)
}

// Process is a process that runs.
type Process struct {
	PID, Parent int
	Started     time.Duration // since the boot, rounded down to 10 ms
}

// Find returns the process with this pid, or the zero value if it is a zombie.
// known is false if /proc does not say.
func Find(pid int) (p Process, known bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	return parseStat(pid, text)
}

// From returns the processes with a pid of minPID or more.
func From(minPID int) ([]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []Process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid < minPID {
			continue
		}
		if p, _ := Find(pid); p.PID != 0 {
			list = append(list, p)
		}
	}
	return list, nil
}

// clockTicks is the number of ticks a second in /proc, the same on every Linux
// machine.
const clockTicks = 100

// parseStat reads the text of /proc/<pid>/stat (proc(5)). The result is as that of Find.
func parseStat(pid int, text []byte) (p Process, known bool) {
	// The second field is the program's name in parentheses and may hold
	// anything, parentheses too.
	i := bytes.LastIndexByte(text, ')')
	if i < 0 {
		return p, false
	}
	fields := bytes.Fields(text[i+1:])
	// Indexes among the fields after the name.
	const parentField, startField = 4 - 3, 22 - 3
	if len(fields) <= startField || len(fields[0]) != 1 {
		return p, false
	}
	parent, e1 := strconv.Atoi(string(fields[parentField]))
	ticks, e2 := strconv.ParseInt(string(fields[startField]), 10, 64)
	if e1 != nil || e2 != nil {
		return p, false
	}
	if state := fields[0][0]; state != 'Z' && state != 'X' {
		p = Process{pid, parent, time.Duration(ticks) * (time.Second / clockTicks)}
	}
	return p, true
}
