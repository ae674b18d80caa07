package xfer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/xfer"
)

// TestOriginsAreForgottenWhenAllTagsAreWritten: the agent confirms a push only when its
// recipients are done in the control file that was pushed and in the one in which they
// were first.
func TestOriginsAreForgottenWhenAllTagsAreWritten(t *testing.T) {
	for _, c := range []struct {
		what        string
		first, copy ctlfile.Tag // in the control files; 0: there is none
		forgotten   bool
	}{
		{"both are gone", 0, 0, true},
		{"both are tagged", '+', '+', true},
		{"the first is open", ' ', 0, false},
		{"the copy is open", 0, ' ', false},
		{"the copy is locked", '+', '~', false},
	} {
		dir := t.TempDir()
		write := func(name string, tag ctlfile.Tag) int64 {
			text := fmt.Sprintf("@ 0x00000007\ni %s\no 1\ns smtp - a@example 0\nr%c          smtp b.example bob 0\nm\n\n", name, max(tag, ' '))
			if tag != 0 {
				check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			return int64(strings.Index(text, "\nr")) + 1
		}
		a := &Agent{Node: "mx1", Dir: dir}
		p := takenPush{path: "8", origins: []ctlfile.Origin{{Node: "mx1", SpoolID: "S7XMVQKNOA", Offset: write("7", c.first)}}}
		p.offsets = []int64{write("8", c.copy)}
		if got := a.tagged(&p); got != c.forgotten {
			t.Errorf("%s: confirmed: %v", c.what, got)
		}
	}
}

// TestConfirmedOriginsAreNotKept: after the agent has ended, the receiver remembers no
// recipient of messages that are gone at the source.
func TestConfirmedOriginsAreNotKept(t *testing.T) {
	p := newPair(t, t.TempDir(), t.TempDir())
	p.submit(2, false)
	stop, err := p.serve()
	check(t, err)
	p.run()
	stop()
	text, err := os.ReadFile(filepath.Join(p.target, "transport/.xfer/origins"))
	check(t, err)
	var done []string
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "D "); ok {
			d, err := xfer.ParseDone("DONE " + strings.TrimSuffix(rest, "\n"))
			check(t, err)
			done = append(done, d.Message)
		}
	}
	if len(done) == 0 {
		t.Errorf("nothing is confirmed:\n%s", text)
	}
}
