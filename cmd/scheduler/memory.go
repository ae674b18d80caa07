package main

// Memory: the settings of the garbage collector.

import (
	"os"
	"runtime/debug"
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
const (
	garbagePercent = 50
	ballastBytes   = 16 << 20
)

// setMemory applies these settings. It returns the ballast, which the caller has to keep
// alive (runtime.KeepAlive).
func setMemory() []byte {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(garbagePercent)
	return make([]byte, ballastBytes)
}
