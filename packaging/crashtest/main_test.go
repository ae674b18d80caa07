//go:build linux && amd64

package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"zsched/internal/testing/injector"
)

var (
	whole    = flag.Bool("whole", false, "run the whole sweeps, not a sample")
	parallel = flag.Int("at-once", 8, "how many scenarios run at a time")
	keep     = flag.Bool("keep", false, "keep the directories of scenarios that fail")
	limit    = flag.Duration("for", 0, "start no scenario after this time of a sweep, and say what is left; 0: no limit")
	kills    = flag.Int("kills", 1, "at most this many kills of the same program in a run")
	stride   = flag.Int("stride", 16, "TestErrorAtEachCall makes one call in this number fail in a run, and makes this number of runs with each error")
	errnames = flag.String("errors", "ENOSPC,EIO,EDQUOT,EMFILE,ENFILE,EROFS,EACCES,EINTR", "the errors with which calls fail")
	only     = flag.String("only", "", "run only the scenarios whose name contains this text")
)

func TestMain(m *testing.M) {
	injector.Begin()
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == smProgram {
		os.Exit(deliverToSink(os.Args[1:]))
	}
	os.Exit(runIn(m))
}

// runIn runs the tests with a directory for the programs.
func runIn(m *testing.M) int {
	flag.Parse()
	if os.Getenv(binVariable) != "" {
		return m.Run()
	}
	bin, err := os.MkdirTemp("", "crashtest-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	if err := os.Setenv(binVariable, bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// binVariable is the environment variable with the directory of the programs. A
// user who cannot build them may set it to one that another run has filled.
const binVariable = "CRASHTEST_BIN"

// build builds the programs, unless another test has, and returns MAILBIN.
func build(t *testing.T) string {
	t.Helper()
	if err := allowed(); err != nil {
		t.Skip(err)
	}
	bin := os.Getenv(binVariable)
	if _, err := os.Stat(filepath.Join(bin, smProgram)); err == nil {
		return bin
	}
	if err := os.Chmod(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, packages := range map[string][]string{
		"":   {"zsched/cmd/scheduler", "zsched/cmd/router", "zsched/cmd/sendmail", "zsched/cmd/smtpserver", "zsched/cmd/ctlfile", "zsched/cmd/mailq"},
		"ta": {"zsched/cmd/ta/..."},
	} {
		to := filepath.Join(bin, dir) + "/"
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", append([]string{"build", "-o", to}, packages...)...).CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	// Another user may not be able to reach the directory that it is in.
	if err := os.WriteFile(filepath.Join(bin, smProgram), program, 0o755); err != nil {
		t.Fatal(err)
	}
	return bin
}

// allowed checks that a process may be traced.
func allowed() error {
	p, err := injector.Start(injector.Options{Command: exec.Command("/bin/true"), Root: "/nowhere", Decide: func(injector.Call) injector.Action { return injector.Action{} }})
	if errors.Is(err, injector.ErrForbidden) {
		return err
	}
	if err == nil && p.Wait().ExitStatus() != 0 {
		return errors.New("a traced process does not start: seccomp may be forbidden here")
	}
	return err
}
