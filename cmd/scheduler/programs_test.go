package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"zsched/internal/testing/programs"
)

// buildPrograms builds the programs that tests and benchmarks run, once in a process, and
// returns their directory. Only the first caller waits for the linker.
var buildPrograms = sync.OnceValues(func() (string, error) {
	// testscript removes the directory of its commands, and what is beside them, at the end.
	scheduler, err := exec.LookPath("scheduler")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(scheduler), "..", "programs")
	if err := programs.Put(dir, "scheduler", "mailq", "router", "smtpserver", "xferd",
		"ta/discard", "ta/errormail", "ta/mailbox", "ta/sm", "ta/smtp", "ta/xfer"); err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"go", "build", "-ldflags=-w", "-o", dir, "zsched/packaging/ministore", "zsched/internal/testing/player"},
		{"cc", "-O2", "-o", filepath.Join(dir, "floor"), "testdata/floor/floor.c"},
		{"cc", "-O2", "-o", filepath.Join(dir, "oldagent"), "../../ta/examples/oldagent.c"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%q: %w\n%s", args, err, out)
		}
	}
	return dir, nil
})

// program returns the path of a program of buildPrograms.
func program(b testing.TB, name string) string {
	b.Helper()
	dir, err := buildPrograms()
	if err != nil {
		b.Fatal(err)
	}
	return filepath.Join(dir, name)
}
