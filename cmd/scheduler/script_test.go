package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/queue"
)

// The test binary plays the scheduler and some of its agents. Most tests wait
// for the time of other processes, so more of them run at once than there are processors.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		log.Fatal(err)
	}
	testscript.Main(m, map[string]func(){"scheduler": main, "stamper": stamp, "hostile": playHostile, "confine": confine})
}

// TestScripts runs the whole program in a postoffice of its own, po, with the
// agent player. Beside the usual commands a script has
//
//	submit NAME host...      a message to u at each host, or to user@host; $NAME is its path;
//	                         $SENDER, $DSN, $RET, $ENVID and $BODY are used if set
//	notice FILE              until router/ has a notice; it is moved to that file
//	await FILE PATTERN       until the file matches
//	gone FILE...             until none of them exists
//	queued N                 until that many control files are there
//	signal NAME [PIDFILE]    to the scheduler
//	mailq ARG...             as it asks this queue
//	answers PATTERN ARG...   until mailq, so called, prints what matches
//	threads PATTERN [SOCKET] until the scheduler's list of threads, which mailq -Q prints, matches
//	get URL STATUS [PATTERN] until this is what comes of it
//	smtp ADDRESS FILE        sends the lines to an SMTP server once it listens; the replies are in stdout
//
// and in $XFER the agent xfer, in $TAKEOVER packaging/takeover, in $SOCKET where the scheduler is
// asked, in $PORT and $PORT2 ports that are free.
func TestScripts(t *testing.T) {
	t.Parallel()
	mailq, agent, player := program(t, "mailq"), program(t, "xfer"), program(t, "player")
	takeover, err := filepath.Abs("../../packaging/takeover")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:       "testdata",
		Condition: conditions,
		Setup: func(e *testscript.Env) error {
			// The commands of testscript come first: there, scheduler is the test binary.
			commands, others, _ := strings.Cut(e.Getenv("PATH"), string(os.PathListSeparator))
			e.Setenv("PATH", strings.Join([]string{commands, filepath.Dir(mailq), others}, string(os.PathListSeparator)))
			e.Setenv("MAILQ", mailq)
			e.Setenv("XFER", agent)
			e.Setenv("PLAYER", player)
			e.Setenv("TAKEOVER", takeover)
			e.Setenv("SOCKET", filepath.Join(e.WorkDir, "po", "mailq"))
			if err := freePorts(e, "PORT", "PORT2"); err != nil {
				return err
			}
			for _, dir := range []string{"transport", "queue", "router", "public", "postman"} {
				if err := os.MkdirAll(filepath.Join(e.WorkDir, "po", dir), 0o755); err != nil {
					return err
				}
			}
			e.Defer(func() { end(filepath.Join(e.WorkDir, "po")) })
			return furnish(e)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"submit": submit, "notice": notice, "await": await, "gone": gone, "queued": queued, "signal": signals,
			"mailq": mailqAt, "answers": answers, "threads": threads, "get": get, "smtp": smtp,
		},
	})
}

// furnish writes the files that every script needs and did not bring.
func furnish(e *testscript.Env) error {
	work := e.WorkDir
	agents := filepath.Join(work, "mailbin", "ta")
	if err := os.MkdirAll(agents, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(e.Getenv("PLAYER"), filepath.Join(agents, "player")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(work, "log"), 0o755); err != nil {
		return err
	}
	files := map[string]string{
		"zmailer.conf": "POSTOFFICE=$WORK/po\nMAILBIN=$WORK/mailbin\nMAILSHARE=$WORK\nLOGDIR=$WORK/log\n",
		"scheduler.cf": "PARAMmailqpath=UNIX:$WORK/po/mailq\n*/*\texpiry=3d overfeed=0 user=root group=root interval=1m\nsmtp/*\tcommand=\"player -c $channel ok\"\n",
	}
	others, _ := filepath.Glob(filepath.Join(work, "*.cf"))
	for _, other := range others {
		files[filepath.Base(other)] = ""
	}
	for name, text := range files {
		name = filepath.Join(work, name)
		if have, err := os.ReadFile(name); err == nil {
			text = string(have)
		}
		if err := os.WriteFile(name, []byte(expandPlaces(e, text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// expandPlaces puts into a configuration file what differs from run to run.
func expandPlaces(e *testscript.Env, text string) string {
	return strings.NewReplacer("$WORK", e.WorkDir, "$PORT2", e.Getenv("PORT2"), "$PORT", e.Getenv("PORT")).Replace(text)
}

// end makes sure that no daemon outlives its script.
func end(postoffice string) {
	if pid, err := readPid(filepath.Join(postoffice, ".pid.scheduler")); err == nil {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func readPid(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// patience is how long a condition may take to come true.
const patience = 2 * time.Minute

func until(ts *testscript.TestScript, what string, ok func() bool) {
	deadline := time.Now().Add(patience)
	// ok may start a process. So that a script is not busy asking, the pauses grow, and are longer
	// than it takes to ask.
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		began := time.Now()
		if ok() {
			return
		}
		if began.After(deadline) {
			ts.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(max(pause, 2*time.Since(began)))
	}
}

func submit(ts *testscript.TestScript, neg bool, args []string) {
	group := ctlfile.HeaderBlock{
		Envelopes: []ctlfile.Envelope{{Sender: ctlfile.Address{Channel: "local", Host: "-", User: "rayan", Privilege: "7"}}},
		Header:    "From: rayan\nSubject: a test\n",
	}
	sender := &group.Envelopes[0].Sender
	switch user := ts.Getenv("SENDER"); user {
	case "":
	case "<>":
		sender.Channel, sender.User = "error", "<>"
	default:
		sender.User = user
	}
	for _, host := range args[1:] {
		user := "u"
		if name, at, named := strings.Cut(host, "@"); named {
			user, host = name, at
		}
		to := ctlfile.EnvelopeRecipient{
			Address: ctlfile.Address{Channel: "smtp", Host: host, User: user + "@" + host, Privilege: "7"},
			DSN:     ts.Getenv("DSN"), Ret: ts.Getenv("RET"), EnvID: ts.Getenv("ENVID"),
		}
		group.Envelopes[0].Recipients = append(group.Envelopes[0].Recipients, to)
	}
	draft := &ctlfile.Contents{MessageID: "<" + args[0] + "@here>", Blocks: []ctlfile.HeaderBlock{group}}
	path, err := queue.Submit(ts.MkAbs("po"), 0, draft, strings.NewReader(cmp.Or(ts.Getenv("BODY"), "A test.")+"\n"))
	ts.Check(err)
	ts.Setenv(args[0], path)
}

func notice(ts *testscript.TestScript, neg bool, args []string) {
	router := ts.MkAbs("po/router")
	until(ts, "a notice", func() bool {
		files, _ := os.ReadDir(router)
		return len(files) > 0 && os.Rename(filepath.Join(router, files[0].Name()), ts.MkAbs(args[0])) == nil
	})
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	file, pattern := ts.MkAbs(args[0]), regexp.MustCompile("(?m)"+args[1])
	until(ts, args[0]+" to match "+args[1], func() bool {
		text, err := os.ReadFile(file)
		return err == nil && pattern.Match(text)
	})
}

// smtp sends all lines at once.
func smtp(ts *testscript.TestScript, neg bool, args []string) {
	var conn net.Conn
	until(ts, args[0]+" to listen", func() (listens bool) {
		var err error
		conn, err = net.Dial("tcp", args[0])
		return err == nil
	})
	defer conn.Close()
	_, err := io.WriteString(conn, strings.ReplaceAll(ts.ReadFile(args[1]), "\n", "\r\n"))
	ts.Check(err)
	replies, err := io.ReadAll(conn)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), strings.ReplaceAll(string(replies), "\r", ""))
}

func gone(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		until(ts, file+" to be gone", func() bool {
			_, err := os.Lstat(ts.MkAbs(file))
			return os.IsNotExist(err)
		})
	}
}

func queued(ts *testscript.TestScript, neg bool, args []string) {
	var files []string
	until(ts, args[0]+" control files", func() bool {
		files = nil
		filepath.WalkDir(ts.MkAbs("po/transport"), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name()[0] != '.' {
				files = append(files, path)
			}
			return nil
		})
		return strconv.Itoa(len(files)) == args[0]
	})
}

func signals(ts *testscript.TestScript, neg bool, args []string) {
	file := "po/.pid.scheduler"
	if len(args) > 1 {
		file = args[1]
	}
	until(ts, file, func() bool { _, err := readPid(ts.MkAbs(file)); return err == nil })
	pid, err := readPid(ts.MkAbs(file))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, unix.SignalNum("SIG"+args[0])))
}
