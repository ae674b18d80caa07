package main

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// Errors of the configuration quote it, so a log is not for every user.
func TestLogIsNotReadableByEverybody(t *testing.T) {
	f, err := openAppend(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&0o007 != 0 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

// A FIFO without a reader must not make the scheduler hang at its start.
func TestLogThatNobodyReadsIsAnError(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAppend(fifo); err == nil {
		t.Error("the log is open")
	}
	if err := (&logSet{log: zerolog.Nop()}).openEvents(fifo); err == nil {
		t.Error("the event log is open")
	}
}
