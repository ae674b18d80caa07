package units

import (
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
		"36500d": 36500 * 86400, "2w1d": 1296000,
	} {
		d, err := ParseInterval(text)
		if err != nil || d != time.Duration(want)*time.Second {
			t.Errorf("%q is %s, %v; want %d seconds", text, d, err, want)
			continue
		}
		if again, err := ParseInterval(FormatInterval(d)); err != nil || again != d {
			t.Errorf("%q is written as %q, which is %s, %v", text, FormatInterval(d), again, err)
		}
	}
	for text, want := range map[string]string{
		"":                                 "an interval consists",
		"5M":                               "an interval consists",
		"12x":                              "an interval consists",
		"h":                                "an interval consists",
		"1hm":                              "an interval consists",
		"-1s":                              "an interval consists",
		"1.5h":                             "an interval consists",
		"1h  5m":                           "an interval consists",
		"1h ":                              "an interval consists",
		"90 30":                            "an interval consists",
		"36501d":                           "longer than 36500d",
		"36500d1s":                         "longer than 36500d",
		"ü":                                "an interval consists",
		"99999999999999999999s":            "longer than",
		strings.Repeat("9000000000s", 400): "longer than",
	} {
		if d, err := ParseInterval(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %s, %v; want %s", text, d, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1h5m20s", "1h 5m", "90", "", "5M", "99999999999999999999d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseInterval(s)
		if err != nil {
			return
		}
		if d < 0 || d > MaxInterval {
			t.Fatalf("%q is %s", s, d)
		}
		if again, err := ParseInterval(FormatInterval(d)); err != nil || again != d {
			t.Fatalf("%q is %s, written %q, read as %s, %v", s, d, FormatInterval(d), again, err)
		}
	})
}
