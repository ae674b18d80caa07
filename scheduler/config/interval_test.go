package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestIntervals(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "90": 90, "10s": 10, "5m": 300, "3d": 259200, "0s": 0, "007": 7,
		// ZMailer read these as 3600, 93600, 60 and 3600.
		"1h5m20s": 3920, "1d12h": 129600, "1m30s": 90, "1h5m": 3900,
		"1h 5m": 3900, "1d 2h 3m 4s": 93784, "1h 5": 3605, "20s5m": 320, "1h1h": 7200,
		"36500d": 36500 * 86400,
	} {
		d, err := parseInterval(text)
		if err != nil || d != time.Duration(want)*time.Second {
			t.Errorf("%q is %s, %v; want %d seconds", text, d, err, want)
			continue
		}
		if again, err := parseInterval(formatInterval(d)); err != nil || again != d {
			t.Errorf("%q is written as %q, which is %s, %v", text, formatInterval(d), again, err)
		}
	}
	for text, want := range map[string]string{
		"":                                 "an interval is needed",
		"5M":                               `"M" is not a unit`,
		"12x":                              `"x" is not a unit`,
		"1w":                               `"w" is not a unit`,
		"h":                                `no number before "h"`,
		"1hm":                              `no number before "m"`,
		"-1s":                              `"-" does not belong`,
		"1.5h":                             `"." is not a unit`,
		"1h  5m":                           `" " does not belong`,
		"1h ":                              `" " does not belong`,
		"90 30":                            `" " is not a unit`,
		"36501d":                           "longer than 36500d",
		"36500d1s":                         "longer than 36500d",
		"ü":                                `"ü" does not belong`,
		"99999999999999999999s":            "longer than",
		strings.Repeat("9000000000s", 400): "longer than",
	} {
		if d, err := parseInterval(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %s, %v; want %s", text, d, err, want)
		}
	}
}

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
