package trace

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzRead reads any event log: nothing panics, what is printed is text, and the
// events are lines of the log.
func FuzzRead(f *testing.F) {
	for _, what := range []string{"S12AbmAA", "1@a", "12", "u@h", ""} {
		f.Add([]byte(lifeLog), what)
	}
	f.Add([]byte(`{"event":"attempt","spoolid":"S1","text":"\u001b[2J\u202e","next":"x","attempts":-1,"delay":1e300}`+"\n{}\n[\n"), "S1")
	f.Fuzz(func(t *testing.T, log []byte, what string) {
		name := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(name, log, 0o600); err != nil {
			t.Fatal(err)
		}
		events, err := Read([]string{name}, what, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Print(&out, events, time.UTC); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f }) {
			t.Errorf("%q is printed", out.String())
		}
		if err := PrintJSON(io.Discard, events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if !bytes.Contains(log, e.line) {
				t.Errorf("%q is not in the log", e.line)
			}
		}
	})
}
