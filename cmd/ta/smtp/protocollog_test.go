package main

import (
	"io"
	"path/filepath"
	"syscall"
	"testing"
)

// A FIFO without a reader must not make the agent hang at its start.
func TestProtocolLogThatNobodyReadsIsAnError(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLog(fifo, 0, io.Discard); err == nil {
		t.Error("it is open")
	}
}
