package config

import (
	"slices"
	"testing"
	"time"
)

// ZMailer read the end of the token before into an interval: 609 seconds.
func TestNothingOfTheWordBeforeGetsIntoAnInterval(t *testing.T) {
	p := mustParse(t, "x maxchannel=199 interval=10m command=y").Effective(0)
	if p.Interval != 10*time.Minute {
		t.Errorf("interval %s", p.Interval)
	}
}

// ZMailer read these as 104400, 100800 and 86400 seconds.
func TestReportTimes(t *testing.T) {
	file := mustParse(t, `x reporttimes="1h 4h 1d 30m5s 9d" command=y`)
	want := []time.Duration{time.Hour, 4 * time.Hour, day, 30*time.Minute + 5*time.Second}
	if p := file.Effective(0); !slices.Equal(p.ReportTimes, want) {
		t.Errorf("got %v, want %v", p.ReportTimes, want)
	}
	if !warns(file, "f:1:3: only the first 4 times are used") {
		t.Errorf("no warning of the fifth: %v", file.Warnings)
	}
}

func TestTimeWithoutUnitIsWarnedOf(t *testing.T) {
	file := mustParse(t, "x expiry=3 idlemax=0 interval=1m30 command=y")
	if p := file.Effective(0); p.Expiry != 3*time.Second {
		t.Errorf("expiry %s", p.Expiry)
	}
	if len(file.Warnings) != 1 || !warns(file, "f:1:3: 3 has no unit, so it counts seconds, as in ZMailer; write 3s if that is meant") {
		t.Errorf("%v", file.Warnings)
	}
}
