package soak

// The site: a postoffice with its configuration and its programs.

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"zsched/internal/testing/programs"
)

// site is a mail system in a directory of its own.
type site struct {
	user        string // who gets the local mail
	t           *testing.T
	dir         string // programs, configuration, Maildirs
	po          string // POSTOFFICE, in dir
	smtpAddress string // the address at which the SMTP server listens
	users       []string
	ledger      *ledger
	faults      *faults
	sink        *sink
	backlog     backlog

	scheduler, router, smtpserver *program

	mu     sync.Mutex
	orders map[string]int // accepted orders, by verb
}

// newSite builds the programs and configures them.
func newSite(t *testing.T) *site {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "soak-*")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t: t, dir: dir, po: filepath.Join(dir, "postoffice"), users: []string{me.Username},
		ledger: newLedger(), faults: &faults{counts: map[string]int{}}, orders: map[string]int{},
	}
	t.Cleanup(func() {
		s.stopAll()
		if *keep {
			t.Log("the site is kept in", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	if os.Geteuid() == 0 {
		// Other users have to reach the delivery helper, and root delivers to all users.
		check(t, os.Chmod(dir, 0o755))
		for _, name := range []string{"daemon", "nobody"} {
			if _, err := user.Lookup(name); err == nil {
				s.users = append(s.users, name)
			}
		}
	}
	// No other process runs these programs.
	check(t, programs.Put(dir+"/bin", "scheduler", "router", "smtpserver", "sendmail", "mailq"))
	check(t, programs.Put(dir+"/bin/ta", "ta/smtp", "ta/mailbox", "ta/errormail"))
	for _, name := range []string{"transport", "queue", "router", "public", "postman"} {
		check(t, os.MkdirAll(filepath.Join(s.po, name), 0o755))
	}
	check(t, os.Mkdir(filepath.Join(dir, "mail"), 0o755))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	s.smtpAddress = l.Addr().String()
	_ = l.Close()
	s.sink = startSink(s)
	s.configure(me)
	s.scheduler = s.program("scheduler", "-i", "-M", "2")
	s.router = s.program("router", "-i")
	s.smtpserver = s.program("smtpserver", "-i")
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The domains of the site. Mail for other domains has no route.
const (
	here      = "here.example"
	takes     = "takes.example"     // agents mark its recipients
	unmarked  = "unmarked.example"  // the scheduler marks them
	slow      = "slow.example"      // never takes what begins with "expires"
	down      = "down.example"      // nobody listens
	elsewhere = "elsewhere.example" // has no route
)

// configure writes all files of the configuration but scheduler.cf, which writeClauses
// writes.
func (s *site) configure(me *user.User) {
	s.user = me.Username
	var aliases strings.Builder
	for _, name := range []string{"box", "owner-list"} {
		fmt.Fprintf(&aliases, "%s: %s@%s\n", name, me.Username, here)
	}
	for _, name := range []string{"pair", "list"} {
		fmt.Fprintf(&aliases, "%s: %s@%s, friend@%s, other@%s\n", name, me.Username, here, takes, unmarked)
	}
	for name, text := range map[string]string{
		"zmailer.conf": fmt.Sprintf("POSTOFFICE=%[1]s/postoffice\nMAILBIN=%[1]s/bin\nMAILSHARE=%[1]s\nLOGDIR=%[1]s\n"+
			"SYSLOGFLG=\nORGDOMAIN=%[2]s\nSCHEDULERDIRHASH=1\nPATH=%[3]s\n",
			s.dir, here, os.Getenv("PATH")),
		"routes": here + " local\n" + takes + " smtp [127.0.0.2]\n" + unmarked + " smtp [127.0.0.3]\n" +
			slow + " smtp [127.0.0.4]\n" + down + " smtp [127.0.0.5]\n",
		"aliases":       aliases.String(),
		"smtpserver.cf": "listen " + s.smtpAddress + "\nhostname " + here + "\nmin-free 1M\n",
	} {
		check(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
	}
	check(s.t, s.writeClauses())
}

// writeClauses writes scheduler.cf, with some of its settings at random.
func (s *site) writeClauses() error {
	oneOf := func(values ...string) string { return values[rand.IntN(len(values))] }
	text := ""
	if *keep {
		text = "PARAMevent-log = \"" + s.dir + "/events\"\n"
	}
	text += fmt.Sprintf(`PARAMmailqsock = "UNIX:%[1]s/mailq"
PARAMmetrics = "UNIX:%[1]s/metrics"
*/*
	user=%[2]d group=%[3]d idlemax=1s expiry=1h interval=1s retries="1 1 2" jitter=20 maxchannel=%[4]s overfeed=%[5]s
local/*
	maxthr=10 sessions=10
	command="mailbox -c $channel -d %[1]s/mail/%%u/ --sessions ${sessions}"
smtp/?127.0.0.2?
	maxthr=8 sessions=%[6]s
	command="smtp -p %[7]d -c $channel --sessions ${sessions}"
smtp/?127.0.0.3?
	maxthr=4 marking=scheduler
	command="smtp -p %[8]d -c $channel --marking scheduler"
smtp/?127.0.0.4?
	expiry=5s maxthr=2
	command="smtp -p %[9]d -c $channel"
smtp/?127.0.0.5?
	# Without expiry2, mail that expires during a restart has an attempt for each message.
	expiry=5s expiry2=30s maxthr=2
	command="smtp -p 1 -c $channel"
error
	command="errormail -c $channel"
`, s.dir, os.Geteuid(), os.Getegid(), oneOf("20", "30"), oneOf("0", "5", "20"),
		oneOf("1", "4", "4"), s.sink.port(0), s.sink.port(1), s.sink.port(2))
	temp := filepath.Join(s.dir, ".scheduler.cf")
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(s.dir, "scheduler.cf"))
}

// files lists the regular files below a directory of the postoffice, by their paths
// below it.
func (s *site) files(dir string) (list []string) {
	root := filepath.Join(s.po, dir)
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			list = append(list, path[len(root)+1:])
		}
		return nil
	})
	return list
}

// isMessage reports whether a path below transport/ or queue/ is that of a message.
func isMessage(path string) bool {
	_, err := strconv.Atoi(filepath.Base(path))
	return err == nil
}
