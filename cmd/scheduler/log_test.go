package main

import (
	"bytes"
	"errors"
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

func TestLogFileIsMadeWhenAFullDiskHasRoom(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=2"); err != nil {
		t.Skipf("cannot mount a file system with few inodes: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	filler, name := filepath.Join(dir, "filler"), filepath.Join(dir, "log")
	if err := os.WriteFile(filler, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := openAppend(name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Write([]byte("one\n")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Write([]byte("one\n")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(name); string(text) != "one\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// Errors of the configuration quote it, so a log is not for every user.
func TestLogIsNotReadableByEverybody(t *testing.T) {
	f, err := openAppend(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.(*os.File).Stat(); err != nil || info.Mode()&0o007 != 0 {
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
	if err := (&logs{log: zerolog.Nop()}).openEvents(fifo, 0); err == nil {
		t.Error("the event log is open")
	}
}
