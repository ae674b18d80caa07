package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"zsched/ctlfile"
	"zsched/internal/testing/programs"
	"zsched/queue"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"sm": main}) }

// TestScripts runs sm in a postoffice of its own, po, by itself or under the
// scheduler. $WORK in files of a script is replaced. Beside the usual commands
// a script has
//
//	submit NAME user...   a message for them at channel prog, host here; its
//	                      job line goes to the file jobs, its path into $NAME
//	status N command...   runs a command that must exit with N
//	queued N              waits until there are N control files
func TestScripts(t *testing.T) {
	scheduler := filepath.Join(t.TempDir(), "scheduler")
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, dir := range []string{"transport", "queue", "router", "public", "postman"} {
				if err := os.MkdirAll(filepath.Join(e.WorkDir, "po", dir), 0o755); err != nil {
					return err
				}
			}
			e.Setenv("SCHEDULER", scheduler)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Defer(func() { end(filepath.Join(e.WorkDir, "po/.pid.scheduler")) })
			return prepare(e.WorkDir)
		},
		Condition: func(name string) (bool, error) {
			if name != "scheduler" {
				return false, nil
			}
			if testing.Short() {
				return false, nil
			}
			err := programs.Put(filepath.Dir(scheduler), "scheduler")
			if err != nil {
				t.Logf("the scheduler does not build here: %v", err)
			}
			return err == nil, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"submit": submit, "queued": queued,
			"status": status,
		},
	})
}

// prepare replaces $WORK in a script's files and links the agent to the place
// where the scheduler looks for it.
func prepare(work string) error {
	program, err := exec.LookPath("sm")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(work, "mailbin/ta"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(program, filepath.Join(work, "mailbin/ta/sm")); err != nil {
		return err
	}
	return filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "$WORK", work)), 0o644); err != nil {
			return err
		}
		return os.Chmod(path, 0o755) // some are programs
	})
}

// end kills a daemon that is left when its script ends.
func end(pidfile string) {
	text, err := os.ReadFile(pidfile)
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func submit(ts *testscript.TestScript, _ bool, args []string) {
	group := ctlfile.HeaderBlock{
		Envelopes: []ctlfile.Envelope{{Sender: ctlfile.Address{Channel: "local", Host: "-", User: "rayan", Privilege: "0"}}},
		Header:    "From: rayan\nSubject: a test\n",
	}
	for _, user := range args[1:] {
		to := ctlfile.EnvelopeRecipient{Address: ctlfile.Address{Channel: "prog", Host: "here", User: user, Privilege: strconv.Itoa(os.Geteuid())}}
		group.Envelopes[0].Recipients = append(group.Envelopes[0].Recipients, to)
	}
	draft := &ctlfile.Contents{MessageID: "<" + args[0] + "@here>", Blocks: []ctlfile.HeaderBlock{group}}
	path, err := queue.Submit(ts.MkAbs("po"), 0, draft, strings.NewReader("Grüße.\n"))
	ts.Check(err)
	ts.Setenv(args[0], path)
	jobs, err := os.OpenFile(ts.Getenv("WORK")+"/jobs", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	ts.Check(err)
	_, err = jobs.WriteString(path + "\there\n")
	ts.Check(err)
	ts.Check(jobs.Close())
}

func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%v, want exit status %s", err, args[0])
	}
}

// queued waits until there are that many control files, for 30 seconds at most.
func queued(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		files, err := filepath.Glob(ts.MkAbs("po/transport/[0-9]*"))
		ts.Check(err)
		if strconv.Itoa(len(files)) == args[0] {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%d control files are left", len(files))
		}
	}
}
