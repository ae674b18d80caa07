package mailq

import (
	"testing"
	"time"

	"zsched/scheduler/view"
)

func TestSpansAreWritten(t *testing.T) {
	for s, want := range map[int64]string{
		0: "0s", 59: "59s", 60: "1m", 3600: "1h", 3661: "1h1m1s", 86400: "1d", 86460: "1d1m", 86461: "1d1m1s",
		90000: "1d1h", 90061: "1d1h", -5: "-5s", -90061: "-1d1h", 431940: "4d23h", 3601: "1h1s",
	} {
		if got := FormatSpan(time.Duration(s) * time.Second); got != want {
			t.Errorf("%d s: %s, want %s", s, got, want)
		}
	}
	if got := FormatSpan(1999 * time.Millisecond); got != "1s" {
		t.Errorf("parts of a second count: %s", got)
	}
}

func TestDigest(t *testing.T) {
	for _, v := range [][3]string{
		{"220 MAILQ-V2-CHALLENGE: 1795233126.898330.1", "nobody", "1304725670c8069b18abb3e3eafa7f8f"},
		{"MAILQ-V2-CHALLENGE: 942665308.906504.3", "my-passwd", "bd4baf7e175c6457f092a4d8a72be539"},
	} {
		if got := Digest(v[0], v[1]); got != v[2] {
			t.Errorf("Digest(%q, %q) = %s, want %s", v[0], v[1], got, v[2])
		}
	}
}

// A thread has one state, the first that keeps its mail back.
func TestStateOfAThread(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	later := now.Add(5*time.Minute + 11*time.Second)
	for want, thread := range map[string]Thread{
		"held": {Held: true, Wait: view.WaitHeld, SuspendedBy: view.AsDead, SuspendedUntil: later},
		"suspended because it is dead, for 5m11s": {SuspendedBy: view.AsDead, SuspendedUntil: later, Wait: view.WaitSuspend},
		"suspended by a reply rule, for 5m11s":    {SuspendedBy: view.ByRule, SuspendedUntil: later, WakeAt: later},
		"suspended by a reply rule, for 0s":       {SuspendedBy: view.ByRule, SuspendedUntil: now.Add(-time.Second)},
		"probing":                                 {Probing: true, Wait: view.WaitProbe},
		"waits (queueonly)":                       {Wait: view.WaitTrigger},
		"next try in 5m11s":                       {WakeAt: later},
		"":                                        {Sessions: 1},
	} {
		if got := StateText(&thread, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
