package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// journald knows the severity of a line only by the number in front of it.
func TestJournalLinesHaveAPriority(t *testing.T) {
	out := new(bytes.Buffer)
	log := zerolog.New(journal{out})
	log.Debug().Send()
	log.Info().Send()
	log.Warn().Send()
	log.Error().Send()
	want := "<7>{\"level\":\"debug\"}\n<6>{\"level\":\"info\"}\n<4>{\"level\":\"warn\"}\n<3>{\"level\":\"error\"}\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}

func TestJournalIsTheStreamThatTheEnvironmentNames(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]bool{
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino): true, fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+1): false, "": false,
	} {
		if isJournal(file, stream) != want {
			t.Errorf("%q: %v", stream, !want)
		}
	}
}

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
