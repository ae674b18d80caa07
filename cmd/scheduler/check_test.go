package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/certificatetest"
)

// installation is a whole one, in a directory: what --init makes, with the tables and the
// configuration of the other programs. $WORK in a file is the directory.
var installation = map[string]string{
	"scheduler.cf": `PARAMmailqsock = "UNIX:${POSTOFFICE}/.mailq"
PARAMauthfile = "${MAILSHARE}/scheduler.auth"
PARAMxfer-nodes = "${MAILSHARE}/nodes"
PARAMnode = a
*/*
	interval=1m retries="1 2 4 8" expiry=1d
local/*
	command="mailbox -c $channel --sessions ${sessions}"
error/*
	command="errormail"
prog/*
	command="sm -c $channel filter"
xfer/*
	command="xfer"
smtp/relay.example
	command="smtp -c $channel -p 2525"
smtp/*
	maxthr=10 command="smtp -c $channel -l ${LOGDIR}/smtp"
`,
	"scheduler.auth": "root:secret:ALL: [127.0.0.0]/8\n",
	"routes":         "localhost local\nhere.example local\nold.example error nosuchdomain\nfilter.example prog\n*.partner.example smtp\n* smtp relay.example\n",
	"aliases":        "postmaster: root\nstaff: root, far@away.example\n",
	"smtpserver.cf":  "listen 127.0.0.1:2525\ndomain here.example\ncertificate mx.pem\n",
	"nodes":          "a UNIX:$WORK/a\nb UNIX:$WORK/b\n",
	"sm.conf":        "filter - /bin/cat cat\n",
}

// mistakes are what people get wrong. Each changes one file of the installation: old becomes new,
// or new is added at the end. The check says something, and exits with 1 or, after a warning, 0.
var mistakes = []struct {
	file, old, new string
	says           string // $WORK is the directory
	warning        bool
}{
	// Where things are.
	{"zmailer.conf", "POSTOFFICE=", "POSTOFICE=", `^POSTOFFICE: stat .*: no such file`, false},
	{"zmailer.conf", "LOGDIR=", "LOG_DIR=", `^$WORK/zmailer.conf:5: no program uses "LOG_DIR"; perhaps LOGDIR is meant \(warning\)$`, true},
	{"zmailer.conf", "LOGDIR=", "LOGDIR =", `^$WORK/zmailer.conf:5: the line does not set LOGDIR: .*first column.* \(warning\)$`, true},
	{"zmailer.conf", "", "ROUTERMAXSIZE=large\n", `^ROUTERMAXSIZE: "large" is not a size such as 500k or 10M$`, false},

	// How mail is delivered.
	{"scheduler.cf", "", "smtp/[192.0.2.1]\n\tmaxthr=1\n", `the pattern "\[192.0.2.1\]" stands for one character, not for the address; .* \(warning\)$`, true},
	{"scheduler.cf", "maxthr=10", "maxthreads=10", `^$WORK/scheduler.cf:18:2: unknown keyword "maxthreads"$`, false},
	{"scheduler.cf", "maxthr=10", "maxthr=ten", `^$WORK/scheduler.cf:18:2: maxthr="ten": must be a whole number from `, false},
	{"scheduler.cf", "expiry=1d", "expiry=3", `^$WORK/scheduler.cf:6:32: 3 has no unit, so it counts seconds, as in ZMailer; write 3s if that is meant \(warning\)$`, true},
	{"scheduler.cf", "expiry=1d", "expiry=1day", `^$WORK/scheduler.cf:6:32: expiry="1day": an interval consists of numbers with the units w, d, h, m and s`, false},
	{"scheduler.cf", `"smtp -c $channel -l ${LOGDIR}/smtp"`, `"smtp -c $channel -l`, `^$WORK/scheduler.cf:18:12: command: the quote that opens here is not closed`, false},
	{"scheduler.cf", "smtp/*", "smpt/*", `^$WORK/routes:5: no clause of $WORK/scheduler.cf gives a command for smtp/\*.partner.example, `, false},
	{"scheduler.cf", "local/*", "loca/*", `^$WORK/routes:1: no clause of $WORK/scheduler.cf gives a command for local/localhost, so this mail would wait$`, false},
	{"scheduler.cf", `"mailbox`, `"mailbx`, `^$WORK/scheduler.cf:8: the program of the command cannot be found: stat .*/ta/mailbx: no such file`, false},
	{"scheduler.cf", "-p 2525", "--prot 2525", `^$WORK/scheduler.cf:16: smtp: unknown flag: --prot$`, false},
	{"scheduler.cf", "-p 2525", "-p smtp", `^$WORK/scheduler.cf:16: smtp: port "smtp": must be a whole number$`, false},
	{"scheduler.cf", "-p 2525", "-S $WORK/tls.conf", `^$WORK/scheduler.cf:16: smtp: open $WORK/tls.conf: no such file`, false},
	{"scheduler.cf", "-c $channel filter", "-c $channel fliter", `^$WORK/scheduler.cf:12: sm: $WORK/sm.conf: there is no mailer "fliter"$`, false},
	{"sm.conf", "/bin/cat", "/bin/tac-", `^$WORK/scheduler.cf:12: sm: .*/bin/tac-.*no such file`, false},
	{"scheduler.cf", `maxthr=10 command="smtp`, `sessions=5 command="smtp`, `smtp/\* sessions=5, but the command does not pass \$\{sessions\} to the agent \(warning\)$`, true},
	{"scheduler.auth", "]/8", "]/80", `scheduler.auth:1: .*the width must be from 0 to 32.* \(warning\)$`, true},
	{"scheduler.auth", "ALL", "TT KIL", `scheduler.auth:1: the attribute "KIL" is unknown and grants nothing \(warning\)$`, true},
	{"scheduler.cf", "PARAMxfer-nodes", "PARAMxfer-node", `there is no parameter "PARAMxfer-node"$`, false},
	{"nodes", "UNIX:$WORK/b", "b.example", `^$WORK/nodes:2: "b.example" is neither host:port nor UNIX:/path`, false},

	// Where mail goes.
	{"routes", "* smtp relay.example", "* smpt relay.example", `^$WORK/routes:6: no clause of $WORK/scheduler.cf gives a command for smpt/relay.example, so this mail would wait$`, false},
	{"routes", "localhost local", "localhost", `^$WORK/routes:1: the channel is missing$`, false},
	{"routes", "* smtp relay.example", "*.example smtp", `^$WORK/routes: no line has the pattern \*, so mail to other domains fails \(warning\)$`, true},
	{"routes", "", "late.example smtp\n", `^$WORK/routes:7: "late.example" is never reached: the pattern \* on line 6 matches everything \(warning\)$`, true},
	{"routes", "* smtp relay.example\n", "", `^$WORK/aliases:2: alias "staff": no route takes "far@away.example"`, false},
	{"aliases", "root, far", "nosuchlocal, far", `^$WORK/aliases:2: alias "staff": "nosuchlocal" is neither a user of this machine nor an alias \(warning\)$`, true},
	{"aliases", "staff: root, far", "staff root, far", `^$WORK/aliases:2: no colon after the name$`, false},
	{"aliases", "", "all: :include:$WORK/all.list\n", `^$WORK/aliases:3: include $WORK/all.list: .*no such file`, false},

	// How mail is taken.
	{"smtpserver.cf", "domain here.example", "domian here.example", `^smtpserver: $WORK/smtpserver.cf:2: no option "domian"$`, false},
	{"smtpserver.cf", "domain here.example", "domain *.example", `^smtpserver: $WORK/smtpserver.cf:2: domain "\*.example": is not a domain such as example.org$`, false},
	{"smtpserver.cf", "listen 127.0.0.1:2525", "listen smtps 127.0.0.1:465", `^smtpserver: $WORK/smtpserver.cf:1: listen "smtps 127.0.0.1:465": "127.0.0.1:465" after an address is not require-auth$`, false},
	{"smtpserver.cf", "", "network 192.0.2.0\\24\n", `^smtpserver: $WORK/smtpserver.cf:4: network .*: is not a network such as 192.0.2.0/24`, false},
	{"smtpserver.cf", "", "check-recipients perhaps\n", `^smtpserver: $WORK/smtpserver.cf:4: check-recipients "perhaps": must be yes or no$`, false},
	{"smtpserver.cf", "", "passwords nosuch\n", `^smtpserver: passwords: open $WORK/nosuch: no such file`, false},
	{"smtpserver.cf", "mx.pem", "old.pem", `^smtpserver: certificate $WORK/old.pem: it has expired, at `, false},
	{"smtpserver.cf", "mx.pem", "soon.pem", `^smtpserver: certificate $WORK/soon.pem: it expires soon, at .* \(warning\)$`, true},
}

// TestCheckFindsMistakes changes one thing of an installation that has no errors.
func TestCheckFindsMistakes(t *testing.T) {
	t.Parallel()
	bin, content := installedPrograms(t, program), installedPrograms(t, contentProgram)
	if said, code := checkInstallation(t, bin, "", "", ""); said != "" || code != exitOK {
		t.Fatalf("without a mistake: exit code %d\n%s", code, said)
	}
	for i, m := range mistakes {
		t.Run(fmt.Sprint(m.file, i), func(t *testing.T) {
			programs := content
			if ofProgram.MatchString(m.says) {
				programs = bin
			}
			said, code := checkInstallation(t, programs, m.file, m.old, m.new)
			want := exitFault
			if m.warning {
				want = exitOK
			}
			if code != want || !regexp.MustCompile("(?m)"+strings.ReplaceAll(m.says, "$WORK", regexp.QuoteMeta("$WORK"))).MatchString(said) {
				t.Errorf("exit code %d, want %d; want %s in\n%s", code, want, m.says, said)
			}
		})
	}
}

// ofProgram matches what the check says in the words of another program. All else it finds
// itself, so the other programs are only started for these.
var ofProgram = regexp.MustCompile(`(smtp|sm|smtpserver): `)

// contentProgram is a program that finds no mistake, whatever it is started as.
func contentProgram(t testing.TB, _ string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// installedPrograms returns a MAILBIN with the programs that the installation names, which
// are links to what path returns.
func installedPrograms(t *testing.T, path func(testing.TB, string) string) (bin string) {
	t.Helper()
	bin = t.TempDir()
	if err := os.Mkdir(filepath.Join(bin, "ta"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"smtpserver", "ta/mailbox", "ta/errormail", "ta/sm", "ta/xfer", "ta/smtp"} {
		if err := os.Symlink(path(t, filepath.Base(name)), filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// checkInstallation makes an installation with a mistake, and returns what the check says about
// it, without its directory, and its exit code.
func checkInstallation(t *testing.T, bin, file, before, after string) (said string, code int) {
	t.Helper()
	work := filepath.Join(t.TempDir(), "po")
	var stdout, stderr bytes.Buffer
	if run([]string{"--init", work}, nil, &stdout, &stderr) != exitOK {
		t.Fatal(stderr.String())
	}
	for name, days := range map[string]int{"mx.pem": 100, "soon.pem": 10, "old.pem": -1} {
		certificatetest.Write(t, filepath.Join(work, name), time.Now().AddDate(0, 0, days))
	}
	files := maps.Clone(installation)
	files["zmailer.conf"] = fmt.Sprintf(firstEnv, work, bin) + "ORGDOMAIN=here.example\n"
	switch text := files[file]; {
	case file == "":
	case before == "":
		files[file] = text + after
	case !strings.Contains(text, before):
		t.Fatalf("%s has no %q", file, before)
	default:
		files[file] = strings.Replace(text, before, after, 1)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(work, name), []byte(strings.ReplaceAll(text, "$WORK", work)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code = run([]string{"--check", "-Z", filepath.Join(work, "zmailer.conf")}, nil, &stdout, &stderr)
	return strings.ReplaceAll(stderr.String(), work, "$WORK"), code
}
