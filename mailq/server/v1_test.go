package server

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"zsched/mailq"
	"zsched/scheduler/view"
)

func TestRendezvous(t *testing.T) {
	now := time.Now()
	q := busyQueue(now)
	s := New(q, Settings{Version: 2})
	path := filepath.Join(t.TempDir(), "mailq.text")
	must(t, os.WriteFile(path, []byte(strings.Repeat("old\n", 10000)), 0o644))
	must(t, s.Rendezvous(context.Background(), path))
	text, err := os.ReadFile(path)
	must(t, err)
	if !strings.HasPrefix(string(text), mailq.GreetingV1+"\nVertices:\n1:\tM/K/860194\t2; 215,100\t#smtp; 500") || strings.Contains(string(text), "old") ||
		!strings.Contains(string(text), "Rcpnts in 24 out 20 stored 4\n") {
		t.Errorf("%s", text)
	}
	info, err := os.Stat(path)
	must(t, err)
	if !info.ModTime().Before(now) || info.ModTime().Before(now.Add(-2*time.Second)) {
		t.Errorf("mtime %v, written at %v", info.ModTime(), now)
	}
	target, link := path+".target", path+".link"
	must(t, os.WriteFile(target, []byte("another file"), 0o600))
	must(t, os.Symlink(target, link))
	must(t, s.Rendezvous(context.Background(), link))
	if text, err := os.ReadFile(target); err != nil || string(text) != "another file" {
		t.Errorf("a symbolic link was followed: %q, %v", text, err)
	}
	if err := s.Rendezvous(context.Background(), filepath.Join(path, "none")); err == nil {
		t.Error("a file below a file was written")
	}
}

// The other characters of texts from outside would command the terminals of those who
// read a dump.
func TestDumpHasNoControlCharacters(t *testing.T) {
	q := busyQueue(time.Now())
	const hostile = "\x1b]0;x\x07 \u009b2J \u202e \u2028 \x9b\rlast"
	q.jobs[0].Recipients[0].Reason = hostile
	q.jobs[0].Host += hostile
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	must(t, dump(context.Background(), w, q, false))
	must(t, w.Flush())
	const shown = `^[]0;x^G \u009b2J \u202e \u2028 \x9b` + "\rlast"
	if n := strings.Count(out.String(), shown); n < 2 {
		t.Errorf("%d times in %q", n, out.String())
	}
	for _, r := range strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(out.String()) {
		if !unicode.IsPrint(r) {
			t.Errorf("%q in %q", r, out.String())
		}
	}
}

func TestStatesOfJobs(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		job  mailq.JobLine
		want string
	}{
		{mailq.JobLine{WakeAt: now.Add(5 * time.Second), PID: 7}, "(retry in 5s)"},
		{mailq.JobLine{WakeAt: now.Add(-5 * time.Second)}, "(activation pending, thread inactive)"},
		{mailq.JobLine{Wait: view.WaitTA}, "(waiting for slot)"},
		{mailq.JobLine{Wait: view.WaitThread}, "(waiting for slot)"},
		{mailq.JobLine{Wait: view.WaitChannel}, "(waiting for channel slot)"},
		{mailq.JobLine{Wait: view.WaitRing}, "(waiting for thread slot)"},
		{mailq.JobLine{Wait: view.WaitHeld}, "(activation pending, thread inactive)"},
		{mailq.JobLine{PID: 7}, "(running now, pid=7)"},
		{mailq.JobLine{PID: 7, Next: true}, "(running now, pid=7 NextFeed)"},
		{mailq.JobLine{ExpiresAt: now.Add(90 * time.Minute)}, "(activation pending, thread inactive, expires in 1h30m, tries=4)"},
		{mailq.JobLine{ExpiresAt: now.Add(-time.Minute)}, "(activation pending, thread inactive, expires in -1m, tries=4)"},
	} {
		tt.job.Path, tt.job.Recipients = "X/1", []mailq.Recipient{{Offset: 3, Attempts: 4}, {Offset: 9, Attempts: 2}}
		want := "12:\tX/1\t2; 3,9\t#" + tt.want
		if got := vertexLine(12, &tt.job, now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
