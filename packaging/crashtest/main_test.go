//go:build linux && amd64

package crashtest

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"zsched/internal/injector"
)

var (
	whole    = flag.Bool("whole", false, "run the whole sweeps, not a sample")
	parallel = flag.Int("at-once", 8, "how many scenarios run at a time")
	keep     = flag.Bool("keep", false, "keep the directories of scenarios that fail")
	only     = flag.String("only", "", "run only the scenarios whose name contains this text")
)

func TestMain(m *testing.M) {
	injector.Begin()
	if len(os.Args) > 0 && filepath.Base(os.Args[0]) == smProgram {
		os.Exit(deliverToSink(os.Args[1:]))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// build builds the programs and returns MAILBIN.
func build(t *testing.T) string {
	t.Helper()
	if err := allowed(); err != nil {
		t.Skip(err)
	}
	bin := t.TempDir()
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

// allowed tries whether a process may be traced.
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
