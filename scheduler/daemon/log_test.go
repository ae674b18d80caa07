package daemon_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"zsched/scheduler/daemon/daemontest"
	"zsched/scheduler/spool"
)

// The daemon's log.

// What is refused again and again is told of at doubling distances.
func TestRefusalIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Run()
		for tries := range 100 {
			h.Spool.Answer(spool.Refused{Name: spool.Name{Path: "1", ID: 1}, Why: spool.Busy, Reason: "locked", Tries: tries + 1})
		}
		synctest.Wait()
		if n := strings.Count(h.Log.String(), "locked"); n != 7 {
			t.Errorf("logged %d times", n)
		}
		h.Stop(syscall.SIGTERM)
	})
}

// Somebody should look at quarantined mail, also after tries that are not logged.
func TestEveryQuarantineIsLoggedAsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Run()
		for tries := 1; tries <= 12; tries++ {
			name := spool.Name{Path: strconv.Itoa(tries), ID: uint64(tries)}
			h.Spool.Answer(spool.Refused{Name: name, Why: spool.Quarantined, Reason: "no body offset", Tries: tries})
		}
		synctest.Wait()
		h.Stop(syscall.SIGTERM)
		errors := 0
		for line := range strings.Lines(h.Log.String()) {
			if strings.Contains(line, `"level":"error"`) && strings.Contains(line, `"why":"quarantined"`) && strings.Contains(line, "no body offset") {
				errors++
			}
		}
		if errors != 12 {
			t.Errorf("%d errors for 12 quarantines: %s", errors, h.Log)
		}
	})
}

// lines returns the log as JSON objects.
func lines(t *testing.T, log *daemontest.Buffer) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, fields)
	}
	return all
}

// With -v and at SIGUSR2 values are JSON too, so that jq can select by them.
func TestVerboseLogIsJSONThroughout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := daemontest.New(t, nil)
		h.Options.Verbose = true
		h.Run()
		h.Spool.Announce(7, "a.example")
		synctest.Wait()
		h.Signals <- syscall.SIGUSR2
		synctest.Wait()
		h.Stop(syscall.SIGTERM)
		found := make(map[string]bool)
		for _, line := range lines(t, h.Log) {
			detail, _ := line["detail"].(map[string]any)
			if message, ok := detail["Message"].(map[string]any); ok && line["event"] == "Arrived" {
				found["arrived"] = message["ID"] == 7.0
			}
			if counts, ok := line["counts"].(map[string]any); ok {
				found["state"] = counts["MessagesIn"] == 1.0
			}
		}
		if !found["arrived"] || !found["state"] {
			t.Errorf("found only %v in:\n%s", found, h.Log)
		}
	})
}
