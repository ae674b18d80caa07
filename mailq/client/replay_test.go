package client

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// captureTime is the time of the captured outputs.
var captureTime = time.Unix(1795234800, 0)

// TestPrintsAsTheOldClient: for the queue of each captured output, the same report.
func TestPrintsAsTheOldClient(t *testing.T) {
	for name, show := range map[string]string{
		"client-v2-Q":   "SHOW QUEUE THREADS",
		"client-v2-QQ":  "SHOW QUEUE SHORT",
		"client-v2-QQQ": "SHOW SNMP",
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
			c, err := dialServer(t, string(server))
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			if err := printQueue(c, &Printer{Out: &out, Now: captureTime}, show); err != nil {
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
