package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"zsched/cmd/ta/internal/program"
	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/internal/units"
	"zsched/queue"
)

// The test binary plays the agent and, by way of it, the agent's helpers.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mailbox": main})
}

// TestScripts runs the whole program in a postoffice of its own, po, as the
// user $ME, whose uid is $UID. Beside the usual commands a script has
//
//	submit NAME rcpt...       a message, the file "message", to recipients of
//	                          the channel local, each "host user privilege";
//	                          $NAME is its path, and the file NAME a job line
//	as UID OUT mailbox arg... runs the agent as another user, with what
//	                          stdin was last; its output goes to the file OUT
//
// and the conditions [root], [daemon], that there is such a user of uid 1, and
// [nobody], that we are that user, whose privilege allows nothing.
func TestScripts(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			for _, dir := range []string{"po/transport", "po/queue", "box"} {
				if err := os.MkdirAll(filepath.Join(e.WorkDir, dir), 0o755); err != nil {
					return err
				}
			}
			e.Setenv("ME", me.Username)
			e.Setenv("UID", me.Uid)
			e.Setenv("ZCONFIG", filepath.Join(e.WorkDir, "zmailer.conf"))
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return furnishWork(e.WorkDir, me.Username)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"submit": submit, "as": as},
		Condition: func(name string) (bool, error) {
			switch name {
			case "root":
				return os.Geteuid() == 0, nil
			case "nobody":
				return me.Uid == "65534" || me.Username == "nobody", nil
			case "daemon":
				u, err := user.Lookup("daemon")
				return err == nil && u.Uid == "1", nil
			}
			return false, fmt.Errorf("no condition %q", name)
		},
	})
}

// furnishWork writes the files that a script did not bring, fills in the
// others, and opens the way to them for other users.
func furnishWork(work, me string) error {
	for name, text := range map[string]string{
		"zmailer.conf": "ORGDOMAIN=example.org\nSYSLOGFLG=none\nPATH=/usr/bin:/bin\n",
		"message":      "From: alice\nSubject: a test\n\nhello\n",
	} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	fill := strings.NewReplacer("$WORK", work, "$ME", me)
	err := filepath.WalkDir(work, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(fill.Replace(string(text))), 0o644)
		}
		return err
	})
	return errors.Join(err, os.Chmod(work, 0o755), os.Chmod(filepath.Dir(work), 0o711))
}

func submit(ts *testscript.TestScript, neg bool, args []string) {
	message, err := os.ReadFile(ts.MkAbs(filepath.Join(ts.Getenv("WORK"), "message")))
	ts.Check(err)
	fields, offset, body, err := header.Read(bytes.NewReader(message))
	ts.Check(err)
	group := ctlfile.HeaderBlock{
		Envelopes: []ctlfile.Envelope{{Sender: ctlfile.Address{Channel: "smtp", Host: "mx", User: "alice@example.net", Privilege: "0"}}},
		Header:    fields,
	}
	for _, rcpt := range args[1:] {
		host, rest, _ := ctlfile.CutWord(os.Expand(rcpt, ts.Getenv))
		user, privilege, _ := ctlfile.CutWord(rest)
		to := ctlfile.Address{Channel: "local", Host: host, User: user, Privilege: privilege}
		group.Envelopes[0].Recipients = append(group.Envelopes[0].Recipients, ctlfile.EnvelopeRecipient{Address: to})
	}
	draft := &ctlfile.Contents{MessageID: "<" + args[0] + "@here>", Body: offset, Blocks: []ctlfile.HeaderBlock{group}}
	path, err := queue.Submit(filepath.Join(ts.Getenv("WORK"), "po"), 0, draft, body)
	ts.Check(err)
	ts.Setenv(args[0], path)
	host := group.Envelopes[0].Recipients[0].RouteHost()
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("WORK"), args[0]), []byte(path+"\t"+host+"\n"), 0o644))
}

func as(ts *testscript.TestScript, neg bool, args []string) {
	uid, err := strconv.ParseUint(args[0], 10, 32)
	ts.Check(err)
	work := ts.Getenv("WORK")
	// It may write all of the spool: that is what a scheduler of its own has.
	ts.Check(filepath.WalkDir(filepath.Join(work, "po"), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return errors.Join(os.Chown(path, int(uid), int(uid)), os.Chmod(path, 0o700))
	}))
	stdin, err := os.Open(filepath.Join(work, "job"))
	ts.Check(err)
	defer stdin.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args, cmd.Dir, cmd.Stdin = args[2:], filepath.Join(work, "po/transport"), stdin
	cmd.Env = []string{"ZCONFIG=" + ts.Getenv("ZCONFIG"), "GORACE=atexit_sleep_ms=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.CombinedOutput()
	ts.Check(os.WriteFile(filepath.Join(work, args[1]), out, 0o644))
	ts.Check(err)
}

func TestManualHasEveryOption(t *testing.T) {
	page, err := os.ReadFile("../../../man/mailbox.8")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), `\-`, "-")
	p := program.New("mailbox", "local", io.Discard, io.Discard)
	newCommand(p)
	p.Flags.VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		}
		if !strings.Contains(text, name+" ") && !strings.Contains(text, name+"\n") && !strings.Contains(text, name+",") {
			t.Errorf("%s is not in the manual page", name)
		}
	})
}

// The limits keep a user from occupying sessions.
func TestDefaultsOfTimeLimitsAreThoseOfTheManual(t *testing.T) {
	page, err := os.ReadFile("../../../man/mailbox.8")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), `\-`, "-")
	p := program.New("mailbox", "local", io.Discard, io.Discard)
	newCommand(p)
	for name, want := range map[string]time.Duration{"lock-wait": 30 * time.Second, "time-limit": 15 * time.Minute, "mailbox-limit": 2 * time.Minute} {
		if have := p.Flags.Lookup(name).Value.(*units.Interval); time.Duration(*have) != want {
			t.Errorf("--%s is %v, want %v", name, have, want)
		}
		_, entry, _ := strings.Cut(text, "--"+name+` " time"`)
		entry, _, _ = strings.Cut(entry, "\n.TP\n")
		_, said, _ := strings.Cut(entry, "default ")
		said, _, _ = strings.Cut(said, ".")
		if told, err := time.ParseDuration(said); err != nil || told != want {
			t.Errorf("mailbox(8) says that --%s is %q, want %v", name, said, want)
		}
	}
}
