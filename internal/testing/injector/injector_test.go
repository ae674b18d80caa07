//go:build linux && amd64

package injector

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Begin()
	os.Exit(m.Run())
}

// traced runs a line of shell in a directory and returns the kinds of its changing
// calls, what it printed and how it ended.
func traced(t *testing.T, dir, line string, decide func(Call) Action) (kinds []string, output string, status unix.WaitStatus) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	var mu sync.Mutex
	p, err := Start(Options{Command: cmd, Root: dir, Decide: func(c Call) Action {
		mu.Lock()
		defer mu.Unlock()
		if c.Changes() {
			kinds = append(kinds, c.Kind())
		}
		return decide(c)
	}})
	if errors.Is(err, ErrForbidden) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	status = p.Wait()
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(kinds), string(text), status
}

func pass(Call) Action { return Action{} }

func directory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCallsBelowTheRootAreSeen(t *testing.T) {
	dir := directory(t)
	kinds, _, status := traced(t, dir, "mkdir sub && echo text > sub/12 && mv sub/12 sub/.13 && rm sub/.13; echo elsewhere > /dev/null", pass)
	if !status.Exited() || status.ExitStatus() != 0 {
		t.Fatalf("%v", status)
	}
	for _, want := range []string{"mkdir sub", "create sub/N", "write sub/N", "sub/N sub/.N", "unlink"} {
		if !slices.ContainsFunc(kinds, func(kind string) bool { return strings.Contains(kind, want) }) {
			t.Errorf("%q is not in %q", want, kinds)
		}
	}
	for _, kind := range kinds {
		if strings.Contains(kind, "null") {
			t.Errorf("%q is not below the root", kind)
		}
	}
}

func TestACallFails(t *testing.T) {
	dir := directory(t)
	_, output, _ := traced(t, dir, "echo text > file", func(c Call) Action {
		if c.Name == "create" {
			return Action{Error: unix.EROFS}
		}
		return Action{}
	})
	if !strings.Contains(output, "Read-only file system") {
		t.Errorf("%q", output)
	}
	if _, err := os.Stat(filepath.Join(dir, "file")); !os.IsNotExist(err) {
		t.Errorf("the call had an effect: %v", err)
	}
}

func TestAProcessIsKilledBeforeACallAndAfterHalfOfIt(t *testing.T) {
	for _, half := range []bool{false, true} {
		dir := directory(t)
		_, output, status := traced(t, dir, "printf 12345678 > file; echo survived", func(c Call) Action {
			return Action{Kill: c.Name == "write" && c.Paths[0] == "file", Half: half}
		})
		if !status.Signaled() || status.Signal() != unix.SIGKILL || output != "" {
			t.Errorf("%v, %q", status, output)
		}
		text, err := os.ReadFile(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{false: "", true: "1234"}[half]; string(text) != want {
			t.Errorf("the file has %q, want %q", text, want)
		}
	}
}

func TestChildrenAreKilledWithTheProgram(t *testing.T) {
	dir := directory(t)
	_, _, status := traced(t, dir, "(sleep 1000 & echo $! > pid; touch ready; wait)", func(c Call) Action {
		return Action{KillAll: c.Name == "create" && c.Paths[0] == "ready"}
	})
	if !status.Signaled() {
		t.Errorf("%v", status)
	}
}

func TestGeneralNamesAreTheSameInEachRun(t *testing.T) {
	for path, want := range map[string]string{
		"po/transport/123": "po/transport/N", "po/transport/.123": "po/transport/.N", "po/hold/threads": "po/hold/threads", "a1/b/c": "N/b/c",
	} {
		if got := General(path); got != want {
			t.Errorf("%q gives %q, want %q", path, got, want)
		}
	}
}
