package main

import (
	"os"
	"runtime/debug"
)

// setMemory sets how much garbage may lie about.
func setMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(75)
	}
}
