package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/internal/zenv"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
)

// debian knows the accounts of a Debian system that nobody has added to, and
// runs the scheduler as the given user.
func debian(uid int) System {
	lookup := func(known string) func(string) (int, error) {
		return func(name string) (int, error) {
			if i := slices.Index(strings.Fields(known), name); i >= 0 {
				return i, nil
			}
			return 0, errors.New("unknown")
		}
	}
	return System{
		Zenv: zenv.Parse([]byte("MAILSHARE=/share\nLOGDIR=/log\nEMPTY=\n")),
		UID:  uid, GID: uid,
		User:  lookup("root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc nobody"),
		Group: lookup("root daemon bin sys adm tty disk lp mail news uucp man proxy nogroup"),
		Port: func(service string) (int, error) {
			if service == "smtp" {
				return 25, nil
			}
			return 0, errors.New("unknown")
		},
	}
}

// mustParse reads a file that has no error, as root.
func mustParse(t *testing.T, text string) *File {
	t.Helper()
	file, err := Parse("f", []byte(text), debian(0))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// clauses writes what a file says, a clause a line.
func clauses(f *File) string {
	var b strings.Builder
	for _, c := range f.Scheduler.Clauses {
		fmt.Fprintf(&b, "%d: %s/%s", c.Line, c.Channel, c.Host)
		for _, s := range c.Settings {
			fmt.Fprintf(&b, " %s=%q", s.Name, s.Value)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// The complete configuration file of the manual page of ZMailer.
func TestManualExampleLoads(t *testing.T) {
	for _, uid := range []int{0, 1000} {
		data, err := os.ReadFile("testdata/manual.cf")
		if err != nil {
			t.Fatal(err)
		}
		file, err := Parse("manual.cf", data, debian(uid))
		if err != nil {
			t.Fatal(err)
		}
		want := `2: */* interval="1m" expiry="3d" retries="1 1 2 3 5 8 13 21 34" maxring="0" maxta="0" user="root" group="daemon"
6: local/* interval="10s" expiry="3h" maxchannel="2" command="mailbox"
8: error/* interval="5m" maxchannel="10" command="errormail"
10: hold/* interval="5m" maxchannel="1" command="hold"
13: smtp/*.toronto.edu maxchannel="10" maxring="2" command="smtp -srl $LOGDIR/smtp"
14: smtp/*.utoronto.ca maxchannel="10" maxring="2" command="smtp -srl $LOGDIR/smtp"
17: smtp/* maxchannel="10" maxring="5" command="smtp -esrl $LOGDIR/smtp"
20: uucp/* maxchannel="5" command="sm -c $channel uucp"
`
		if got := clauses(file); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		p := file.Effective(4)
		wantUID, wantGID := 0, 1
		if uid != 0 {
			wantUID, wantGID = -1, -1
		}
		if p.Interval != time.Minute || p.Expiry != 72*time.Hour || p.MaxRing != 2 ||
			p.UID != wantUID || p.GID != wantGID || !slices.Equal(p.Command, []string{"smtp", "-srl", "$LOGDIR/smtp"}) {
			t.Errorf("as %d, smtp/*.toronto.edu has %+v", uid, p)
		}
	}
}

func TestDefaultsAreTheManuals(t *testing.T) {
	p := mustParse(t, "x command=y").Scheduler.Defaults
	want := rule.Params{
		Interval: time.Minute, Expiry: 72 * time.Hour, Expiry2: 24 * time.Hour,
		Retries: []int{1, 1, 2, 3, 5, 8, 13, 21, 34},
		Jitter:  10, MinBackoff: 5 * time.Minute, MaxBackoff: 4000 * time.Second,
		MaxThr: 1, Rates: rule.Rates{Burst: 1}, Overfeed: 150, Sessions: 1, Quantum: 50, UID: 0, GID: 1,
		Window: limit.WindowRules{
			Positive:    limit.Feedback{Amount: 1, Per: limit.PerN},
			Negative:    limit.Feedback{Amount: 1, Per: limit.PerN},
			CohortLimit: 1,
		},
		Preemption:   rule.Preemption{SlotCost: 5, SlotDiscount: 50, SlotLoan: 3, MinSlots: 3},
		AgentTimeout: 2 * time.Hour,
		MsgSessions:  20, MsgScale: 10, Share: "source",
	}
	if got, want := fmt.Sprintf("%+v", p), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEmptyClauseHasWhatTheNextOneHas(t *testing.T) {
	got := clauses(mustParse(t, `
*/*
	interval=5m
a
b/x
*/*
	jitter=5
c
	reporttimes=1h skew=2 deliveryform=f command=z
d
*/*
e
`))
	all := ` reporttimes="1h" command="z"` + "\n"
	want := `2: */* interval="5m"` + "\n" +
		`4: a/*` + all + `5: b/x` + all +
		`6: */* jitter="5"` + "\n" +
		`8: c/*` + all +
		"10: d/*\n11: */*\n12: e/*\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// What ZMailer shared between chained clauses it freed twice.
func TestChainedClausesShareNothing(t *testing.T) {
	file := mustParse(t, "a\nb retries=1 command=x")
	c := file.Scheduler.Clauses
	c[0].Settings[0].Value = "changed"
	if c[1].Settings[0].Value != "1" {
		t.Error("a change of one clause's settings changed another's")
	}
}

func TestBadSecondReadLeavesTheFirstAlone(t *testing.T) {
	first := mustParse(t, "PARAMauthfile=/a\na\nb interval=5m command=x")
	before := clauses(first) + strings.Join(lines(keywords, first.Effective(1)), "\n")
	if _, err := Parse("f", []byte("PARAMauthfile=/b\nb interval=7m commnd=x"), debian(0)); err == nil {
		t.Fatal("no error")
	}
	if after := clauses(first) + strings.Join(lines(keywords, first.Effective(1)), "\n"); after != before || first.Params.AuthFile != "/a" {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

func TestLaterOfNiceAndPriorityHolds(t *testing.T) {
	for text, want := range map[string]string{
		"x nice=5":             "5 0 false",
		"x nice=5 priority=-3": "0 -3 true",
		"x priority=0":         "0 0 true",
		"x priority=-3 nice=5": "5 0 false",
	} {
		p := mustParse(t, text+" command=y").Effective(0)
		if got := fmt.Sprint(p.Nice, p.Priority, p.PrioritySet); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestParamLines(t *testing.T) {
	file := mustParse(t, `x command=y
PARAMmailqpath = "UNIX:/run/mailq"
ParamAuthFile="${MAILSHARE}/auth"
PARAMnotifysock=${LOGDIR}${MAILSHARE}/n
PARAMglobal-report-interval = 15m
PARAMstore-error-on-error=0
PARAMagent-timeout=30m
PARAMmetrics=9174
PARAMspool-mode=keep
	interval=5m
`)
	got := lines(params, file.Params)
	for _, want := range []string{
		"mailqpath=[{unix /run/mailq}]", "authfile=/share/auth", "notifysock={unix /log/share/n}", "global-report-interval=15m0s",
		"store-error-on-error=false", "agent-timeout=30m0s", "metrics={tcp 127.0.0.1:9174}", "spool-mode=keep",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q, without %s", got, want)
		}
	}
	if file.Effective(0).AgentTimeout != 30*time.Minute {
		t.Errorf("the core is told an agent-timeout of %s", file.Effective(0).AgentTimeout)
	}
	// A PARAM line does not end the clause above it.
	if p := file.Effective(0); p.Interval != 5*time.Minute {
		t.Errorf("interval %s", p.Interval)
	}
}

func TestSocketAddresses(t *testing.T) {
	long := "/" + strings.Repeat("x", maxSocketPath)
	for text, want := range map[string]string{
		"unix:/x":           "[{unix /x}]",
		"/x":                "[{unix /x}]",
		"TCP:174":           "[{tcp :174}]",
		"174":               "[{tcp :174}]",
		"tcp:smtp":          "[{tcp :25}]",
		"smtp@10.0.0.1":     "[{tcp :25}]",
		"TCP:127.0.0.1:174": "[{tcp 127.0.0.1:174}]",
		"TCP:[::1]:174":     "[{tcp [::1]:174}]",
		"TCP:mailq":         "[{tcp :174}]",
		"nosuch":            "[{tcp :174}]",
		`"TCP:174 UNIX:/m"`: "[{tcp :174} {unix /m}]",
		`"TCP:174 UNIX:m"`:  "",
		"0":                 "",
		"65536":             "",
		"UNIX:x":            "",
		"UDP:174":           "",
		long:                "",
	} {
		file, err := Parse("f", []byte("x command=y\nPARAMmailqsock="+text), debian(0))
		if want == "" {
			if err == nil {
				t.Errorf("%s is accepted", text)
			}
			continue
		}
		if err != nil || fmt.Sprint(file.Params.MailqSocks) != want {
			t.Errorf("%s is %v, want %s", text, err, want)
		}
	}
}

func TestShares(t *testing.T) {
	name := filepath.Join(t.TempDir(), "shares")
	if err := os.WriteFile(name, []byte("# who weighs what\nExample.ORG 4\n\nann@example.net\t2 # a friend\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := mustParse(t, "x command=y\nPARAMshares="+name)
	if got := fmt.Sprint(file.Params.Shares.Weights); got != "map[ann@example.net:2 example.org:4]" {
		t.Error(got)
	}
	if err := os.WriteFile(name, []byte("a 1\nb 0\nc\nd 1 1\ne 1001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("f", []byte("x command=y\nPARAMshares="+name), debian(0))
	var wrong Errors
	if !errors.As(err, &wrong) || len(wrong) != 4 || wrong[0].Place != (Place{name, 2, 1}) {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	env := zenv.Parse([]byte("MAILSHARE=" + dir))
	newer, older := filepath.Join(dir, "scheduler.cf"), filepath.Join(dir, "scheduler.conf")
	if got := DefaultFile(env); got != newer {
		t.Errorf("with neither file, %s", got)
	}
	if _, err := Load(newer, env); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(older, []byte("x command=y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := DefaultFile(env); got != older {
		t.Errorf("with the older file, %s", got)
	}
	if err := os.WriteFile(newer, []byte("x comand=y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := DefaultFile(env); got != newer {
		t.Errorf("with both files, %s", got)
	}
	file, err := Load(older, env)
	if err != nil || file.Name != older || file.Scheduler.Env["MAILSHARE"] != dir {
		t.Error(file, err)
	}
	var one Error
	if _, err := Load(newer, env); !errors.As(err, &one) || one.Place != (Place{newer, 1, 3}) {
		t.Error(err)
	}
	if _, err := Load("/dev/zero", env); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

// lines are the values that a table has in the parameters.
func lines(table []row, of any) (all []string) {
	value := reflect.New(reflect.TypeOf(of))
	value.Elem().Set(reflect.ValueOf(of))
	for i := range table {
		all = append(all, fmt.Sprintf("%s=%v", table[i].name, table[i].value(value.Interface())))
	}
	return all
}

// Effective returns the parameters for a recipient that matches the clause with
// this index and no earlier clause except */*.
func (f *File) Effective(clause int) rule.Params {
	p := f.Scheduler.Defaults
	for i := range f.Scheduler.Clauses[:clause+1] {
		c := &f.Scheduler.Clauses[i]
		if i == clause || c.MatchesAll() {
			for _, s := range c.Settings {
				s.Apply(&p)
			}
		}
	}
	return p
}
