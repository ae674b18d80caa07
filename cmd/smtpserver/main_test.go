package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/smtp"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"zsched/internal/zenv"
)

// TestMain makes the test binary the server when a test starts it so.
func TestMain(m *testing.M) {
	switch os.Getenv("SMTPSERVER_TEST") {
	case "1":
		main()
	case "strangers":
		if err := serveStrangers(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// place is a postoffice with its configuration.
type place struct {
	t      testing.TB
	dir    string
	logged chan string // gets the lines of the log after the first "listening"; nil: nobody reads them
}

func newPlace(t testing.TB, config string) place {
	t.Helper()
	p := place{t: t, dir: t.TempDir()}
	for _, dir := range []string{"public", "router", "transport", "queue"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	zenv := fmt.Sprintf("POSTOFFICE=%s\nMAILSHARE=%s\n", p.dir, p.dir)
	for name, text := range map[string]string{"zmailer.conf": zenv, "smtpserver.cf": config} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// start starts a server on a port of the system's choice.
func (p place) start() (server *exec.Cmd, address string) {
	p.t.Helper()
	return p.startAs("1")
}

// startAs starts what TestMain has for a mode.
func (p place) startAs(mode string) (server *exec.Cmd, address string) {
	p.t.Helper()
	server = exec.Command(os.Args[0], "-i", "-Z", filepath.Join(p.dir, "zmailer.conf"), "-l", "127.0.0.1:0")
	server.Env = append(os.Environ(), "SMTPSERVER_TEST="+mode)
	stderr, err := server.StderrPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = server.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		var line struct{ Message, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Message == "listening" {
			go func() {
				for lines.Scan() {
					if p.logged != nil {
						p.logged <- lines.Text()
					}
				}
			}()
			return server, line.Address
		}
		p.t.Log(lines.Text())
	}
	p.t.Fatal("the server does not listen")
	return nil, ""
}

// The reader of the log is gone, for example a logger that was restarted.
func TestServerOutlivesTheReaderOfItsLog(t *testing.T) {
	p := newPlace(t, "domain ours.example\n")
	server := exec.Command(os.Args[0], "-i", "-Z", filepath.Join(p.dir, "zmailer.conf"), "-l", filepath.Join(p.dir, "smtp"))
	server.Env = append(os.Environ(), "SMTPSERVER_TEST=1")
	stderr, err := server.StderrPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	if line, err := bufio.NewReader(stderr).ReadString('\n'); !strings.Contains(line, "listening") {
		t.Fatal(line, err)
	}
	_ = stderr.Close()
	for range 2 {
		conn, err := net.Dial("unix", filepath.Join(p.dir, "smtp"))
		if err != nil {
			t.Fatal(err)
		}
		client, err := smtp.NewClient(conn, "ours.example")
		if err == nil {
			err = errors.Join(client.Mail("a@client.example"), client.Rcpt("b@ours.example"))
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := client.Data()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(text, "Subject: x\r\n\r\ntext\r\n")
		if err := errors.Join(err, text.Close(), client.Quit()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKilledServerLosesNothingThatItAcknowledged(t *testing.T) {
	p := newPlace(t, "domain ours.example\n")
	acknowledged := make(map[string]bool)
	var mu sync.Mutex
	for round := range 5 {
		server, address := p.start()
		var clients sync.WaitGroup
		enough := make(chan bool, 1000)
		for client := range 8 {
			clients.Go(func() {
				for i := 0; ; i++ {
					id := fmt.Sprintf("<%d.%d.%d@client.example>", round, client, i)
					body := "Message-ID: " + id + "\r\n\r\n" + strings.Repeat("text\r\n", 500) + "end\r\n"
					err := smtp.SendMail(address, nil, "a@client.example", []string{"b@ours.example"}, []byte(body))
					if err != nil {
						return // killed
					}
					mu.Lock()
					acknowledged[id] = true
					mu.Unlock()
					select {
					case enough <- true:
					default:
					}
				}
			})
		}
		go func() {
			clients.Wait()
			close(enough)
		}()
		for range 20 + 7*round {
			if _, going := <-enough; !going {
				t.Fatal("no client could send")
			}
		}
		_ = server.Process.Kill()
		_ = server.Wait()
		for range enough { // until the clients have noticed
		}
	}
	found := make(map[string]bool)
	files, _ := filepath.Glob(filepath.Join(p.dir, "router", "*"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "\nMessage-ID: ")
		id, body, _ := strings.Cut(after, "\n")
		if !strings.HasSuffix(body, "text\nend\n") {
			t.Errorf("%s is not complete", file)
		}
		found[id] = true
	}
	for id := range acknowledged {
		if !found[id] {
			t.Errorf("%s is lost", id)
		}
	}
	server, _ := p.start()
	left := []string{"?"}
	for began := time.Now(); len(left) > 0 && time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
		left, _ = filepath.Glob(filepath.Join(p.dir, "public", ".*"))
	}
	if len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
}

func TestWrongConfigurationIsNamedWithItsPlace(t *testing.T) {
	for config, want := range map[string]string{
		"# fine\nmax-size 5k\n":           "",
		"max-sise 5k\n":                   "smtpserver.cf:1: no option",
		"max-size many\n":                 "smtpserver.cf:1: ",
		"min-free 0\n":                    "",
		"max-size 0\n":                    `"0" is less than 1`,
		"max-size 549755813887G\n":        `"549755813887G" is not a size`,
		"network 1.2.3.4/99\n":            "smtpserver.cf:1: ",
		"listen nowhere\n":                "smtpserver.cf:1: ",
		"config other\n":                  "smtpserver.cf:1: no option",
		"max-recipients 0\n":              "at least 1",
		"certificate missing.pem\n":       "missing.pem",
		"listen smtps:[::1]:465\n":        "needs TLS",
		"listen [::1]:587 auth\n":         "smtpserver.cf:1: ",
		"metrics nowhere\n":               "smtpserver.cf:1: ",
		"rate-login 500/1h\n":             "",
		"rate-network 100000/1m\n":        "",
		"rate-login 500\n":                "smtpserver.cf:1: ",
		"\nrate-client 0/1h\n":            "smtpserver.cf:2: ",
		"rate-client 10/0s\n":             "smtpserver.cf:1: ",
		"listen [::1]:587 require-auth\n": "needs TLS",
		"passwords p\nlisten smtps:[::1]:465 require-auth\n":                         "needs TLS",
		"rate-login 5/1h\n\nrate-login 9/1h\n":                                       `smtpserver.cf:3: option "rate-login" is also in line 1`,
		"domain a.example\ndomain b.example\nnetwork 192.0.2.1\nnetwork 192.0.2.2\n": "",
		"max-errors few\n":           `smtpserver.cf:1: max-errors "few": must be a whole number`,
		"check-recipients maybe\n":   `smtpserver.cf:1: check-recipients "maybe": must be yes or no`,
		"domain .*.example\n":        `smtpserver.cf:1: domain ".*.example": is not a domain such as example.org`,
		"hostname -bad-\n":           `smtpserver.cf:1: hostname "-bad-": is not a domain`,
		"network 192.0.2.0/33\n":     `smtpserver.cf:1: network "192.0.2.0/33": is not a network such as`,
		"listen smtps 0.0.0.0:465\n": `smtpserver.cf:1: listen "smtps 0.0.0.0:465": "0.0.0.0:465" after an address is not require-auth`,
	} {
		p := newPlace(t, config)
		var out, errs bytes.Buffer
		code := run([]string{"--check", "-Z", filepath.Join(p.dir, "zmailer.conf")}, &out, &errs)
		if ok := want == ""; ok != (code == 0) || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: code %d, %q", config, code, errs.String())
		}
	}
}

func TestCommandLineOverridesTheFile(t *testing.T) {
	p := newPlace(t, "max-size 5M\nmax-errors 5\nlisten 127.0.0.1:2525\n")
	o := new(options)
	flags := newFlags(o)
	err := flags.Parse([]string{"--max-size", "7M", "--max-errors", "7", "--listen", "127.0.0.1:2526"})
	if err = errors.Join(err, o.readFile(flags, p.dir)); err != nil {
		t.Fatal(err)
	}
	if o.MaxSize != 7<<20 || o.MaxErrors != 7 || len(o.listen) != 2 {
		t.Errorf("max-size %d, max-errors %d, listen %v", o.MaxSize, o.MaxErrors, o.listen)
	}
}

// The server reads the passwords at each login, so only the check tells before.
func TestCheckReadsThePasswords(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("alice"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	alice := "alice:" + string(hash) + ":alice@ours.example, @other.example\n"
	const noHash = "the text after the colon is not a bcrypt hash"
	for text, want := range map[string]struct {
		code int
		says string
	}{
		alice:                          {0, ""},
		"# users\n\n" + alice:          {0, ""},
		"":                             {1, "smtpserver: passwords: DIR/p has no line with which a user could log in\n"},
		"bob:secret\n":                 {1, "smtpserver: DIR/p:1: " + noHash},
		alice + "bob:$apr1$x$y\n":      {0, "smtpserver: DIR/p:2: " + noHash},
		alice + "\nbob\n":              {0, "smtpserver: DIR/p:3: the line is not user:hash\n"},
		"joe:" + string(hash) + ":joe": {0, `smtpserver: DIR/p:1: sender "joe" is neither an address nor @domain` + "\n"},
	} {
		p := newPlace(t, "passwords p\n")
		check := func() (code int, said string) {
			var out, errs bytes.Buffer
			code = run([]string{"--check", "-Z", filepath.Join(p.dir, "zmailer.conf")}, &out, &errs)
			return code, strings.ReplaceAll(errs.String(), p.dir, "DIR")
		}
		if code, said := check(); code != 1 || !strings.HasPrefix(said, "smtpserver: passwords: open DIR/p: no such file") {
			t.Errorf("without a file: code %d, %q", code, said)
		}
		if err := os.WriteFile(filepath.Join(p.dir, "p"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, said := check()
		if code != want.code || !strings.HasPrefix(said, want.says) || want.says == "" && said != "" || strings.Contains(said, "secret") {
			t.Errorf("%q: code %d, %q", text, code, said)
		}
	}
}

// Another user's mail would get this user as its sender, so the server does not start.
func TestSettingsAreSwitchedInWords(t *testing.T) {
	for value, want := range map[string]bool{"": true, "yes": true, "On": true, "1": true, "no": false, "off": false, "false": false, "0": false} {
		p := newPlace(t, "check-recipients "+value+"\n")
		c := &configuration{args: []string{"-Z", filepath.Join(p.dir, "zmailer.conf")}}
		if _, err := c.read(); err != nil || c.options.checkRecipients != want {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestServerOfAUserWhomTheRouterDoesNotTrust(t *testing.T) {
	p := newPlace(t, "")
	c := &configuration{args: []string{"-Z", filepath.Join(p.dir, "zmailer.conf")}}
	read := func() {
		t.Helper()
		if _, err := c.read(); err != nil {
			t.Fatal(err)
		}
	}
	read()
	const stranger = 4294967
	for uid, want := range map[int]string{0: "", os.Geteuid(): "", stranger: "user 4294967 may not hand in mail of others"} {
		if err := c.maySubmit(uid); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
	text := fmt.Sprintf("POSTOFFICE=%s\nMAILSHARE=%s\nROUTERTRUSTED=root 4294967\n", p.dir, p.dir)
	if err := os.WriteFile(filepath.Join(p.dir, "zmailer.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read()
	if err := c.maySubmit(stranger); err != nil {
		t.Error(err)
	}
}

func TestAddressesThatTheRouterWouldFailAreRefused(t *testing.T) {
	p := newPlace(t, "hostname ours.example\ncheck-recipients\n")
	for name, text := range map[string]string{"routes": "ours.example local\n*.far.example smtp\n", "aliases": "team: root\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, address := p.start()
	c, err := smtp.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Mail("a@client.example"); err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]string{
		"root@ours.example": "", "team@ours.example": "", "Postmaster@ours.example": "", "x@mx.far.example": "",
		"nosuchuser-xyz@ours.example": `550 "5.1.1`, "x@nowhere.example": `550 "5.1.2`,
	} {
		if err := c.Rcpt(to); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", to, err, want)
		}
	}
}

// The shipped configuration without its domain line.
func TestServerHasTheNameOfItsHost(t *testing.T) {
	shipped, err := os.ReadFile("../../packaging/smtpserver.cf")
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(shipped), "\ndomain ")
	if !found {
		t.Fatal("the shipped configuration has no domain")
	}
	_, after, _ = strings.Cut(after, "\n")
	system, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for setting, name := range map[string]string{"HOSTNAME=a.test\n": "a.test", "": system} {
		p := newPlace(t, before+"\n"+after)
		conf := fmt.Sprintf("POSTOFFICE=%s\nMAILSHARE=%s\n%s", p.dir, p.dir, setting)
		if err := os.WriteFile(filepath.Join(p.dir, "zmailer.conf"), []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		_, address := p.startAs("strangers")
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 2, 3)}}
		conn, err := from.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c := textproto.NewConn(conn)
		defer c.Close()
		for _, step := range []struct{ command, want string }{
			{"", "220 " + name + " "}, {"EHLO c.test", "250 " + name + "\n"}, {"MAIL FROM:<a@c.test>", "250 "},
			{"RCPT TO:<root@" + name + ">", "250 "}, {"RCPT TO:<postmaster>", "250 "}, {"RCPT TO:<postmaster@" + name + ">", "250 "},
			{"RCPT TO:<root@localhost>", "550 5.7.1 "}, {"RCPT TO:<root@other.test>", "550 5.7.1 "},
		} {
			if step.command != "" {
				if err := c.PrintfLine("%s", step.command); err != nil {
					t.Fatal(err)
				}
			}
			code, text, err := c.ReadResponse(0)
			if got := fmt.Sprint(code, " ", text); !strings.HasPrefix(got, step.want) {
				t.Errorf("%q, %s: %s (%v), want %s", setting, step.command, got, err, step.want)
			}
		}
	}
}

func TestServerAcceptsNoMessageThatTheRouterDoesNotTake(t *testing.T) {
	for text, want := range map[string]int64{"ROUTERMAXSIZE=1M": 1 << 20, "ROUTERMAXSIZE=0": 50 << 20, "": 50 << 20} {
		o := new(options)
		newFlags(o)
		if s, err := o.server(zenv.Parse([]byte(text))); err != nil || s.MaxSize != want {
			t.Errorf("%q: size %d, %v", text, s.MaxSize, err)
		}
	}
}

func TestHangupDoesNotEndTheServer(t *testing.T) {
	server, _ := newPlace(t, "domain ours.example\n").start()
	if err := server.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("after SIGHUP and SIGTERM: %v", err)
	}
}

// Signals read the options again, for sessions that begin later. A file with errors
// changes nothing.
func TestSignalsReloadTheOptions(t *testing.T) {
	p := newPlace(t, "hostname one.example\n")
	p.logged = make(chan string, 100)
	server, address := p.start()
	greeting := func() (string, *textproto.Conn) {
		t.Helper()
		conn, err := textproto.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		line, err := conn.ReadLine()
		if err != nil {
			t.Fatal(err)
		}
		return line, conn
	}
	reload := func(sig syscall.Signal, config, word string) (before string) {
		t.Helper()
		err := os.WriteFile(filepath.Join(p.dir, "smtpserver.cf"), []byte(config), 0o600)
		if err = errors.Join(err, server.Process.Signal(sig)); err != nil {
			t.Fatal(err)
		}
		for line := range p.logged {
			if strings.Contains(line, "reloaded") {
				if !strings.Contains(line, word) {
					t.Errorf("the log says %s", line)
				}
				return before
			}
			before = line
		}
		return before
	}
	line, before := greeting()
	if !strings.HasPrefix(line, "220 one.example ") {
		t.Fatal(line)
	}
	reload(syscall.SIGHUP, "hostname two.example\nmax-recipients 1\n", "reloaded, for sessions that begin now")
	line, after := greeting()
	if !strings.HasPrefix(line, "220 two.example ") {
		t.Error(line)
	}
	record := filepath.Join(p.dir, ".smtpserver.reload")
	reload(syscall.SIGUSR1, "hostname three.example\nno-such-option\n", "no-such-option")
	if text, err := os.ReadFile(record); err != nil || !strings.Contains(string(text), `smtpserver.cf:2: no option "no-such-option"`) {
		t.Errorf("for mailq: %q, %v", text, err)
	}
	if line, _ = greeting(); !strings.HasPrefix(line, "220 two.example ") {
		t.Error(line)
	}
	for conn, want := range map[*textproto.Conn]int{before: 250, after: 452} {
		for i, command := range []string{"EHLO c.example", "MAIL FROM:<a@b.example>", "RCPT TO:<x@c.example>", "RCPT TO:<y@c.example>"} {
			if err := conn.PrintfLine("%s", command); err != nil {
				t.Fatal(err)
			}
			code, text, err := conn.ReadResponse(0)
			if i == 3 && code != want {
				t.Errorf("the second recipient got %d %s (%v), want %d", code, text, err, want)
			}
		}
	}
	line = reload(syscall.SIGHUP, "hostname four.example\npasswords nosuch\n", "reloaded, for sessions that begin now")
	if !strings.Contains(line, `"warn"`) || !strings.Contains(line, "nosuch: no such file") {
		t.Errorf("about the passwords the log says %s", line)
	}
	if _, err := os.Stat(record); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is still there for mailq: %v", err)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}
