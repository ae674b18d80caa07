package scheduler_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oldBugs are the defects of ZMailer's scheduler that concern the core: what
// went wrong, and the tests that show that it does not happen here. A test is a
// scenario's file name or a test function.
var oldBugs = []struct{ bug, tests string }{
	// Agents.
	{"${ without its brace swallowed the rest of a word", "TestExpand"},
	{"$NAME without braces stayed as it was", "TestExpand"},
	{"-R n let n+1 agents start in a second", "fork_rate"},
	{"retryat without text crashed it", "retryat_without_sense"},
	{"the time of retryat was ignored", "retryat TestManualAgents"},
	{"a batch was fed, and the next when all of it was answered", "overfeed_window"},
	{"the first hungry agent swallowed a thread that several should share", "overfeed_and_maxthr"},
	{"idle agents counted at the limits and were never evicted", "limit_evicts_idle limit_evicts_idle_sent"},
	{"idlemax unset was none, and its sweep came every two minutes", "idlemax_unset"},
	{"an agent without a first #hungry, or silent, held its thread for ever", "watchdog watchdog_first_hungry kill_escalation"},
	{"mail that came between #idle and its answer waited an interval", "idle_race"},
	{"a #hungry too many made an endless loop", "hungry_means_nothing"},
	{"a job line without reports was fed again at once", "hungry_ends_an_open_line"},
	{"an agent's death held up its whole thread", "death_oldest_pays death_costs_one_attempt"},
	{"a death was no attempt, so that expiry needed expiry2", "death_expires"},
	{"agents that die at once were started again at every sweep", "start_failures start_failures_have_a_bound"},
	{"a resync with nothing to do was repeated for ever", "resync_still_open resync_storm"},
	{"a resync dropped the message that another agent was on", "resync_live_lock"},
	{"reports on others' recipients were believed", "reports_of_strangers"},
	{"SIGQUIT could wait for ever", "stop_slow stop_slow_has_a_bound stop_leaves_what_hangs"},
	{"SIGTERM told agents nothing", "stop_fast"},
	{"the end of an agent could be told in an order that confused it", "exit_before_started"},

	// Clauses.
	{"a channel that no clause matches crashed it", "expiry_no_clause no_clause_until_reload"},
	{"a matching clause without a command ended the search", "TestMatch TestManualClauses"},
	{"*/host never matched", "TestMatch"},
	{"sets with ranges or ^, braces in the middle and upper case never matched", "TestGlob"},
	{"1h5m20s was an hour", "TestManualClauses"},
	{"retries=0 was an error", "retries_zero TestRetryBruteForce"},
	{"a reload freed what was in use, doubled jobs, bounced mail and crashed", "reload_unchanged reload_command reload_limits reload_expiry reload_while_reading"},

	// Time.
	{"mail that came for a dead host was tried at once", "deferall suspension_outlives_its_mail"},
	{"a thread that waits held up those behind it", "retries_do_not_block_each_other"},
	{"retries were exact to ten or twenty seconds", "retries retries_do_not_block_each_other"},
	{"each report of a run, and its end, took a retry step", "deferred_one_step_a_line deferall_in_the_pipe retries"},
	{"the next wake-up could lie in 1970", "TestRetryOfLargeNumbers retryat_without_sense"},
	{"wake-ups were drawn to multiples of the interval", "jitter TestRetryJitter"},
	{"threads at a limit neither waited in turn nor backed off", "rings_take_turns_maxta rings_take_turns_maxchannel broken_clause_holds_nobody TestNobodyStarves"},
	{"an agent stayed with a long thread while others waited", "threads_take_turns overfeed_and_quantum"},
	{"one message expired at a run", "expiry_all_at_once expiry_dead_counts"},
	{"mail expired up to an interval early", "expiry TestManualKeywords"},
	{"mail whose last word was delayed expired without a notice", "expiry_forces_failed"},
	{"an expiry was reported for the wrong recipient", "expiry_each_recipient"},
	{"expired recipients were not tagged, and came back", "expiry"},
	{"ETRN retried by itself what had failed in its run", "queueonly queueonly_destination_fails"},

	// Messages.
	{"alternatives were lost", "alternatives alternatives_all_fail alternatives_in_one_thread alternatives_expire alternatives_while_fed"},
	{"the first recipient's NOTIFY held for all", "notify"},
	{"x lines never worked", "obsoletes"},
	{"every outcome was looked up along all recipients", "TestManyRecipients"},
}

// TestBugsHaveTests: each defect has tests, and these exist.
func TestBugsHaveTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../internal/pattern/pattern_test.go", "rule/clause_test.go", "rule/retry_test.go")
	source := ""
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(data)
	}
	for _, b := range oldBugs {
		for test := range strings.FieldsSeq(b.tests) {
			if strings.HasPrefix(test, "Test") {
				if !strings.Contains(source, "func "+test+"(") {
					t.Errorf("%s: no %s", b.bug, test)
				}
			} else if _, err := os.Stat("testdata/" + test + ".txt"); err != nil {
				t.Errorf("%s: %v", b.bug, err)
			}
		}
	}
}
