package client

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/mailq"
)

// captureTime is the time of the captured outputs.
var captureTime = time.Unix(1795234800, 0)

// capturedSpool has the messages of the captures, with their ages.
func capturedSpool(t *testing.T) *Postoffice {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/postoffice")); err != nil {
		t.Fatal(err)
	}
	for path, age := range map[string]time.Duration{
		"H/836219": 237 * time.Second, "J/836221": 237 * time.Second, "M/836224": 237 * time.Second,
		"Y/836184": 26*time.Minute + 28*time.Second,
	} {
		if err := os.Chtimes(filepath.Join(dir, "queue", path), time.Time{}, captureTime.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	return &Postoffice{Dir: dir}
}

// TestPrintsAsTheOldClient: for the queue of each captured output, the same
// output, but without the old client's noise about the line on the thread
// that precedes its recipients.
func TestPrintsAsTheOldClient(t *testing.T) {
	spool := capturedSpool(t)
	for name, run := range map[string]struct {
		show    string
		names   []mailq.Name
		verbose int
	}{
		"client-v1-Q":       {show: "Q"},
		"client-v1-default": {},
		"client-v1-v":       {verbose: 1},
		"client-v2-Q":       {show: "SHOW QUEUE THREADS"},
		"client-v2-QQ":      {show: "SHOW QUEUE SHORT"},
		"client-v2-QQQ":     {show: "SHOW SNMP"},
		"client-v2-ch":      {names: []mailq.Name{{Channel: "smtpdn", Host: "d1.example"}}},
		"client-v2-default": {},
		"client-v2-v":       {verbose: 1},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := os.ReadFile(filepath.Join("testdata", name+".server"))
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			want = bytes.ReplaceAll(want, []byte("Communication error! Malformed data entry!\n"), nil)
			c, err := dialServer(t, string(server))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			p := &Printer{Out: &out, Now: captureTime, Verbose: run.verbose, Spool: spool}
			if err := printQueue(c, p, run.show, run.names...); err != nil {
				t.Fatal(err)
			}
			if out.String() != string(want) {
				t.Errorf("%s", difference(out.String(), string(want)))
			}
		})
	}
}

// difference is the first line that differs.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d: %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d:\n%s", len(g), len(w), got)
}
