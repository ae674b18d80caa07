package main

// Memory: the settings of the garbage collector.

import (
	"os"
	"runtime/debug"
)

// Default garbage collector settings when GOGC is unset.
//
// GOGC=12 keeps the resident size of a large queue near its mail: 79 MB with 300 000 deferred
// messages (BenchmarkResident; 96 MB with GOGC=50), 109 MB with 302 000 messages and an event log
// (TestEachDestinationHasItsTurn). A collection is cheap, because most of the memory has no
// pointers. With a small queue the collector would then run all the time. To prevent that, a
// ballast of 64 MB counts as live; it is never touched and therefore never resident. It allows 8 MB
// of garbage, as a ballast of 16 MB does with GOGC=50. That amount was chosen with a million messages
// that pass through a queue of a thousand (BenchmarkCycle of package scheduler: µs per message,
// maximum resident size; the ballasts with GOGC=50):
//
//	GOGC=100  1.9  22 MB        GOGC=50  1.8  19 MB        ballast 4 MB  1.6  20 MB
//	                            ballast 16 MB  1.4  26 MB  ballast 64 MB  1.4  51 MB
const (
	garbagePercent = 12
	ballastBytes   = 64 << 20
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
