package main

// Memory: the settings of the garbage collector.

import (
	"os"
	"runtime/debug"
)

// Default garbage collector settings when GOGC is unset.
//
// GOGC=50 keeps the resident size of a large queue near its mail. Without an event log: 64 MB with 150 000 deferred
// messages, 96 MB with 300 000 (BenchmarkResident), 270 MB with a million waiting messages while
// others come and go (BenchmarkChurn of package scheduler). With a small queue the collector would
// then run all the time. To prevent that, a ballast of 16 MB counts as live; it is never touched and
// therefore never resident. Measured with a million messages that pass through a queue of a thousand
// (BenchmarkCycle of package scheduler: µs per message, maximum resident size):
//
//	GOGC=100  1.9  22 MB        GOGC=50  1.8  19 MB        ballast 4 MB  1.6  20 MB
//	                            ballast 16 MB  1.4  26 MB  ballast 64 MB  1.4  51 MB
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
