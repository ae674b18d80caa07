package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite what testdata expects")

// lifeLog is an event log: a message that is deferred,
// goes elsewhere and comes to its end there, and another one to two recipients.
const lifeLog = `{"time":"2026-11-20T23:59:59.500Z","event":"arrival","spoolid":"S12AbmAA","message_id":"<1@a>","sender":"a@b","recipient":"u@h","channel":"smtp","host":"h","file":"12","size":812,"recipients":1}
{"time":"2026-11-21T00:00:00.000Z","event":"suspended","channel":"smtp","host":"h","next":"2026-11-21T00:01:00.000Z"}
{"time":"2026-11-21T00:00:00.000Z","event":"attempt","spoolid":"S12AbmAA","message_id":"<1@a>","sender":"a@b","recipient":"u@h","channel":"smtp","host":"h","pid":711,"command":"smtp -c smtp","status":"deferred","class":4,"dsn":"4.4.1","text":"no answer\u001b[2J","attempts":1,"next":"2026-11-21T00:01:00.000Z"}
{"time":"2026-11-21T00:00:02.000Z","event":"arrival","spoolid":"S34AbmAB","message_id":"<2@a>","sender":"c@d","recipient":"U@H","channel":"smtp","host":"h","client":"192.0.2.7","source":"login:ann","file":"34","size":1,"recipients":2}
{"time":"2026-11-21T00:00:02.000Z","event":"arrival","spoolid":"S34AbmAB","message_id":"<2@a>","sender":"c@d","recipient":"v@h","channel":"smtp","host":"h","client":"192.0.2.7","source":"login:ann","file":"34","size":1,"recipients":2}
{"time":"2026-11-21T00:00:30.000Z","event":"hold","channel":"smtp","host":"h"}
{"time":"2026-11-21T00:00:31.000Z","event":"hold","channel":"smtp","host":"elsewhere"}
--
{"time":"2026-11-21T00:02:00.000Z","event":"order","spoolid":"S12AbmAA","message_id":"<1@a>","sender":"a@b","order":"REROUTE","by":"ann uid 0","because":"they moved","to":"smtp/g","recipients":1}
{"time":"2026-11-21T00:02:00.100Z","event":"resubmitted","spoolid":"S12AbmAA","message_id":"<1@a>","sender":"a@b","recipients":1,"new":"transport/B/56","new_spoolid":"S56AbmAC"}
{"time":"2026-11-21T00:02:00.200Z","event":"end","spoolid":"S12AbmAA","message_id":"<1@a>","sender":"a@b","delay":120.700,"recipients":1,"failed":0}
--
{"time":"2026-11-21T00:02:00.300Z","event":"arrival","spoolid":"S56AbmAC","message_id":"<1@a>","sender":"a@b","recipient":"u@h","channel":"smtp","host":"g","file":"B/56","size":812,"recipients":1}
{"time":"2026-11-21T00:02:01.000Z","event":"attempt","spoolid":"S56AbmAC","message_id":"<1@a>","sender":"a@b","recipient":"u@h","channel":"smtp","host":"g","pid":712,"command":"smtp -c smtp","peer":"mx.g (192.0.2.1)","status":"ok","class":2,"dsn":"2.0.0","text":"250 2.0.0 queued as 4F2","attempts":1}
{"time":"2026-11-21T00:02:01.100Z","event":"end","spoolid":"S56AbmAC","message_id":"<1@a>","sender":"a@b","delay":1.0,"recipients":1,"failed":0}
{"time":"2026-11-21T00:02:02.000Z","event":"quarantined","file":"C/78","status":"quarantined","text":"there is no message file"}
{"time":"2026-11-21T00:02:02.000Z","event":"arrival","spoolid":"S9AbmAD","message_id":"<9@a>","sender":"e@f","file":"9","size":1,"recipients":0,"text":"found at the start"}
{"time":"2026-11-21T00:02:02.000Z","event":"done","spoolid":"S9AbmAD","message_id":"<9@a>","sender":"e@f","recipient":"w@h","channel":"smtp","host":"h","status":"+"}
{"time":"2026-11-21T00:02:02.000Z","event":"done","spoolid":"S9AbmAD","message_id":"<9@a>","sender":"e@f","recipient":"x@h","channel":"smtp","host":"h","status":"-","dsn":"5.1.1","text":"550 5.1.1 unknown"}
{"time":"2026-11-21T00:02:02.000Z","event":"done","spoolid":"S56AbmAC","message_id":"<1@a>","sender":"a@b","recipient":"u@h","channel":"smtp","host":"g","status":"+"}
{"time":"2026-11-21T00:02:02.500Z","event":"quarantined","spoolid":"S9AbmAD","message_id":"<9@a>","sender":"e@f","file":"9","status":"quarantined","text":"it ends in the middle of a line"}
not an event
{"time":"2026-11-21T00:02:03.000Z","event":"end","spoolid":"S34A`

// writeLog writes the log as it is after two rotations: the oldest part is
// compressed.
func writeLog(t *testing.T) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "events")
	parts := strings.Split(lifeLog, "--\n")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	w.Write([]byte(parts[0]))
	w.Close()
	at := time.Now().Add(-time.Hour)
	for name, data := range map[string][]byte{log + ".2.gz": packed.Bytes(), log + ".1": []byte(parts[1]), log: []byte(parts[2])} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{log, log + ".2.gz", log + ".1"} { // the newest file is not the log itself
		if err := os.Chtimes(name, at, at.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// testdata/lives.txt has what is told for each thing that may be sought.
func TestLivesAreTold(t *testing.T) {
	files, err := Files(writeLog(t))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/lives.txt"
	var out bytes.Buffer
	for _, what := range []string{"S12AbmAA", "<1@A>", "2@a", "12", "C/78", "u@h", "a@b", "v@h", "S9AbmAD", "<w@h>", "S1", "192.0.2.7", "login:ann", "nobody@h"} {
		events, err := Read(files, what, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("== " + what + "\n")
		if err := Print(&out, events, time.UTC); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("%s differs; really it is:\n%s", golden, out.String())
	}
}

func TestJSONIsTheLinesOfTheLog(t *testing.T) {
	files, err := Files(writeLog(t))
	if err != nil {
		t.Fatal(err)
	}
	events, err := Read(files, "S56AbmAC", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := PrintJSON(&out, events); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(lifeLog, line) {
			t.Errorf("%s is not in the log", line)
		}
	}
	if len(events) != 4 {
		t.Errorf("%d events", len(events))
	}
}

func TestMissingLogIsAnError(t *testing.T) {
	if _, err := Files(filepath.Join(t.TempDir(), "events")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

// TestTraceFollowsTheSpoolID: the number of a copy's control file is used again when the
// copy has left the queue. The later message is another one.
func TestTraceFollowsTheSpoolID(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(log, []byte(`{"time":"2026-11-21T00:00:00Z","event":"arrival","spoolid":"S12AbmAA","recipient":"u@h","channel":"smtp","host":"h","file":"12"}
{"time":"2026-11-21T00:00:01Z","event":"resubmitted","spoolid":"S12AbmAA","recipients":1,"new":"transport/56","new_spoolid":"S56AbmAC"}
{"time":"2026-11-21T00:00:01Z","event":"end","spoolid":"S12AbmAA"}
{"time":"2026-11-21T00:00:01Z","event":"arrival","spoolid":"S56AbmAC","recipient":"u@h","channel":"smtp","host":"g","file":"56"}
{"time":"2026-11-21T00:00:02Z","event":"end","spoolid":"S56AbmAC"}
{"time":"2026-11-21T00:00:03Z","event":"arrival","spoolid":"S56AbmAF","recipient":"v@h","channel":"smtp","host":"h","file":"56"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"u@h", "S12AbmAA"} {
		events, err := Read([]string{log}, what, time.Time{})
		if err != nil || len(events) != 5 || events[4].SpoolID != "S56AbmAC" {
			t.Errorf("%s: %d events, %v", what, len(events), err)
		}
	}
}

// A rotated log that is cut does not hide what the other files have. The user learns of it.
func TestDamagedLogIsNamed(t *testing.T) {
	log := writeLog(t)
	packed, err := os.ReadFile(log + ".2.gz")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{".2.gz": packed[:len(packed)-12], ".3.gz": nil, ".4.gz": []byte("not compressed by gzip")} {
		if err := os.WriteFile(log+name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Files(log)
	if err != nil {
		t.Fatal(err)
	}
	events, err := Read(files, "S56AbmAC", time.Time{})
	const want = "LOG.2.gz: unexpected EOF\nLOG.3.gz: EOF\nLOG.4.gz: gzip: invalid header"
	if got := strings.ReplaceAll(fmt.Sprint(err), log, "LOG"); got != want || len(events) != 4 {
		t.Errorf("%d events, %s", len(events), got)
	}
}
