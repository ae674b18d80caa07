package scheduler_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// manualRule is a sentence of ZMailer's manual and a scenario, in the words of
// testdata/README, that shows it. Where our manual, scheduler(8) or
// scheduler.cf(5), departs from ZMailer's, the sentence says so.
type manualRule struct {
	name     string
	sentence string
	scenario string
}

// TestManualAgents: TRANSPORT AGENT INTERFACE.
func TestManualAgents(t *testing.T) {
	checkRules(t, []manualRule{
		{"a sample session", `T: #hungry, S: spoolid hostspec, T: diagnostics, … S: EOF`, `
config
	smtp idlemax=1m command=smtp
arrive 1 smtp/a
----
start A1 for smtp/a: smtp

hungry A1
----
A1 <- 1 a

report A1 1/100 ok3
hungry A1
----
log 1 ok3 smtp/a
finish 1
A1 <- #idle

hungry A1
at 10s arrive 2 smtp/a
----
A1 <- 2 a

done A1 2
hungry A1
at 70s
----
log 2 ok3 smtp/a
finish 2
A1 <- #idle
+1m10s close A1
`},
		{"retryat +N", `The retryat response will assume the first word of the text is a numeric
		parameter, an incremental time in seconds if prefixed by +.`, retryAt("+90")},
		{"retryat N", `Otherwise an absolute time in seconds since epoch. (The scenario begins at
		1800000000.)`, retryAt("1800000090")},
		{"status words", `Status is one of ok, ok2, ok3, error, error2, deferred, deferall, or
		retryat. The old program had deferback, too.`, `
config
	smtp interval=1h jitter=0 command=smtp
arrive 1 smtp/a smtp/a smtp/a smtp/a smtp/a
arrive 2 smtp/a smtp/a
hungry A1
report A1 1/100 ok
report A1 1/200 ok2
report A1 1/300 ok3
report A1 1/400 error gone
report A1 1/500 error2 gone
hungry A1
report A1 2/100 deferred
report A1 2/200 deferback
hungry A1
----
start A1 for smtp/a: smtp
A1 <- 1 a
log 1 ok smtp/a
log 1 ok2 smtp/a
log 1 ok3 smtp/a
log 1 error smtp/a
mark 1: 400 d("" "gone")
log 1 error2 smtp/a
finish 1, which may owe a notice
A1 <- 2 a
A1 <- #idle
`},
	})
}

// retryAt returns a scenario in which an agent wants to try again in 90
// seconds.
func retryAt(when string) string {
	return `
config
	smtp interval=1h jitter=0 idlemax=1d command=smtp
arrive 1 smtp/a
hungry A1
report A1 1/100 retryat ` + when + ` later
hungry A1
hungry A1
at 90s
----
start A1 for smtp/a: smtp
A1 <- 1 a
A1 <- #idle
+1m30s A1 <- 1 a
`
}

// TestManualNamesTheDepartures: what a site with ZMailer would not expect.
func TestManualNamesTheDepartures(t *testing.T) {
	page, err := os.ReadFile("../man/scheduler.8")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n.SH DIFFERENCES FROM ZMAILER\n")
	section, _, _ = strings.Cut(section, "\n.SH ")
	section = regexp.MustCompile(`(?m)^\.\w+ ?`).ReplaceAllString(section, "") // macros
	section = strings.Join(strings.Fields(strings.NewReplacer(`"`, "", `\-`, "-").Replace(section)), " ")
	section = strings.ReplaceAll(section, " ,", ",")
	for _, want := range []string{
		"Control files belong to root",
		"the challenge begins with 220",
		"a wrong password is answered with -BAD USER OR PASSWORD",
		"The states in the statistics log are ok, ok2, ok3, error, error2 and expire",
		"All directories are swept every 30 seconds",
		"POSTOFFICE/scheduler is not used",
		"the first #hungry of an agent brings only one line",
		"only the recipients of the job line count as attempted",
	} {
		if !strings.Contains(section, want) {
			t.Errorf("scheduler(8) does not say among the differences: %s", want)
		}
	}
}

// TestManualScheduler: DESCRIPTION, OPTIONS and SIGNALS.
func TestManualScheduler(t *testing.T) {
	checkRules(t, []manualRule{
		{"one by one", `The scheduler will start a transport agent (or use one from idle-pool), and
		tell it one by one which message control files to process.`, `
config
	smtp overfeed=0 command=smtp
hide log finish
arrive 1-2 smtp/a
hungry A1
done A1 1-2
hungry A1
arrive 3 smtp/b
----
start A1 for smtp/a: smtp
A1 <- 1 a
A1 <- 2 a
A1 <- #idle
A1 <- 3 b
`},
		{"deleted when all are processed", `When all the destination addresses in a message have been
		processed, the scheduler performs error reporting tasks if any, and then deletes the files.`, `
config
	smtp command=smtp
	local command=mailbox
hide log
arrive 1 smtp/a local/-
hungry A1 A2
report A2 1/200 error2 no such user
----
start A1 for smtp/a: smtp
start A2 for local/-: mailbox
A1 <- 1 a
A2 <- 1 -

report A1 1/100 ok3
----
finish 1, which may owe a notice
`},
		{"-F", `Freeze: don't actually run anything, just do queue scanning.`, `
config frozen
	smtp command=smtp
arrive 1 smtp/a
show counts
----
messages 1 vertices 1 recipients 1 threads 1 agents 0 idle 0 sessions 0
`},
		{"-p", `Running selectively some thread.`, `
config only=smtp/b
	*/* command=any
arrive 1 smtp/a local/b smtp/b
----
start A1 for smtp/b: any
`},
		{"-R", `Forks in a second at most; one more was possible with the old program.`, `
config forkrate=3
	smtp maxthr=9 command=smtp
arrive 1-7 smtp/a
at 1500ms
----
start A1 for smtp/a: smtp
start A2 for smtp/a: smtp
+500ms start A3 for smtp/a: smtp
+1s start A4 for smtp/a: smtp
+1.5s start A5 for smtp/a: smtp
`},
		{"SIGTERM", `Exit cleanly.`, `
config
	smtp command=smtp
hide log
arrive 1 smtp/a
hungry A1
stop fast
----
start A1 for smtp/a: smtp
A1 <- 1 a

done A1 1
exit A1 exit status 0
----
finish 1
close A1
stopped
`},
		{"SIGQUIT", `At first order transporter childs to shut down, and collect their status
		reports.`, `
config
	smtp command=smtp
arrive 1 smtp/a
hungry A1
stop slow
at 4m59s
done A1 1
exit A1 exit status 0
----
start A1 for smtp/a: smtp
A1 <- 1 a
log 1 ok3 smtp/a
finish 1
close A1
stopped
`},
		{"SIGUSR1", `Reread the scheduler configuration file.`, `
config
	smtp command=smtp
arrive 1 smtp/a
reload
	smtp command=other
arrive 2 smtp/b
----
start A1 for smtp/a: smtp
start A2 for smtp/a: other
start A3 for smtp/a: other
`},
	})
}

// checkRules runs the scenarios and compares.
func checkRules(t *testing.T, sentences []manualRule) {
	for _, s := range sentences {
		t.Run(s.name, func(t *testing.T) {
			want := strings.TrimPrefix(s.scenario, "\n")
			if got := play(t, "manual", want); got != want {
				t.Errorf("%s\nplayed:\n%s", strings.Join(strings.Fields(s.sentence), " "), got)
			}
		})
	}
}
