//go:build linux && amd64

package crashtest

import (
	"cmp"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"zsched/internal/testing/injector"
	"zsched/internal/testing/programs"
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
	flag.Parse()
	code := m.Run()
	os.RemoveAll(mailbin)
	os.Exit(code)
}

var (
	mailbin  string // the directory of the programs; "" before build
	building sync.Mutex
)

// build builds the programs, unless another test has, and returns MAILBIN. The tests wait most
// of the time, so they run at once, except for whole sweeps, whose time -for limits.
func build(t *testing.T) string {
	t.Helper()
	if err := allowed(); err != nil {
		t.Skip(err)
	}
	if !*whole {
		t.Parallel()
	}
	building.Lock()
	defer building.Unlock()
	if mailbin != "" {
		return mailbin
	}
	bin, err := os.MkdirTemp("", "crashtest-bin-")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	err = cmp.Or(err, os.Chmod(bin, 0o755),
		programs.Put(bin, "scheduler", "router", "sendmail", "smtpserver", "ctlfile", "mailq"),
		programs.Put(bin+"/ta", "ta/smtp", "ta/mailbox", "ta/sm", "ta/hold", "ta/errormail"),
		// Another user may not be able to reach the directory that this program is in.
		os.WriteFile(filepath.Join(bin, smProgram), program, 0o755))
	if err != nil {
		os.RemoveAll(bin)
		t.Fatal(err)
	}
	mailbin = bin
	return mailbin
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
