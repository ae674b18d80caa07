package main

// Memory: the settings of the garbage collector and the memory limit.

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// Default garbage collector settings when GOGC is unset.
//
// GOGC=50 keeps a million waiting messages below 800 MB while messages come and
// go. With a small queue the collector would then run thousands of times a
// second. To prevent that, a ballast of 64 MB counts as live; it is never touched
// and therefore never resident. Measured with a million messages that pass
// through a queue of a thousand (µs per message in package scheduler, maximum
// resident size):
//
//	GOGC=100  3.7  19 MB        GOGC=50  5.1  10 MB        GOGC=50, ballast  2.7  45 MB
//
// A site that limits the mail in memory (PARAMactive-limit, PARAMrecipient-limit)
// wants a small process rather than a fast one, so its ballast is smaller.
const (
	garbagePercent = 50
	ballastBytes   = 64 << 20
	smallBallast   = 4 << 20
)

// setMemory applies these settings and sets a memory limit. Near the limit the
// collector works harder, so that the system does not kill the process. setMemory
// returns the ballast, which the caller has to keep alive (runtime.KeepAlive).
func setMemory(limited bool) []byte {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryAllowed() / 10 * 9)
	}
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(garbagePercent)
	if limited {
		return make([]byte, smallBallast)
	}
	return make([]byte, ballastBytes)
}

// memoryAllowed returns the memory of the machine, or of the control group if
// that is less, in bytes.
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
		// The limits of the parent groups apply too.
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
