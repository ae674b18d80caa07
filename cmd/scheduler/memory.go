package main

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// How much garbage may lie about, where GOGC does not say it: half of what is
// alive, which keeps a million waiting messages below 800 MB under churn. A
// small queue would be collected thousands of times a second that way, so a
// ballast of 64 MB, which is never touched and so never resident, counts as
// alive. Measured with a million messages passing through a queue of a
// thousand (µs of the core for each, resident at most):
//
//	GOGC=100  3.7  19 MB        GOGC=50  5.1  10 MB        GOGC=50, ballast  2.7  45 MB
const (
	garbagePercent = 50
	ballastBytes   = 64 << 20
)

// setMemory puts that in force, and a limit near which the collector works
// harder rather than let the system kill us. The result is the ballast: it has
// to be kept alive.
func setMemory() []byte {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryAllowed() / 10 * 9)
	}
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(garbagePercent)
	return make([]byte, ballastBytes)
}

// memoryAllowed is what the machine has, or the control group allows if that
// is less.
func memoryAllowed() int64 {
	allowed := int64(math.MaxInt64)
	var machine syscall.Sysinfo_t
	if err := syscall.Sysinfo(&machine); err == nil {
		allowed = int64(machine.Totalram) * int64(machine.Unit)
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return allowed
	}
	for line := range strings.Lines(string(groups)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		// The limit of any group above holds too.
		for ; ; group = path.Dir(group) {
			text, err := os.ReadFile(path.Join("/sys/fs/cgroup", group, "memory.max"))
			if limit, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
				allowed = min(allowed, limit)
			}
			if group == "/" || group == "." {
				break
			}
		}
	}
	return allowed
}
