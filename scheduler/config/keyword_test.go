package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zsched/internal/units"
	"zsched/scheduler/limit"
	"zsched/scheduler/rule"
	"zsched/ta"
)

// samples are values that a kind accepts, on the edges of its bounds, and
// values beyond them. They follow from what scheduler.cf(5) says of the kind.
func samples(k kind) (good, bad []string) {
	number := func(low, high int) ([]string, []string) {
		return []string{strconv.Itoa(low), strconv.Itoa(high)},
			[]string{strconv.Itoa(low - 1), strconv.Itoa(high + 1), "x", "1x", "1.5", "99999999999999999999"}
	}
	seconds := func(low, high time.Duration) ([]string, []string) {
		good, bad := number(int(low/time.Second), int(high/time.Second))
		return append(good, units.FormatInterval(low), units.FormatInterval(high)), append(bad, units.FormatInterval(high)+"1s")
	}
	form := k.form
	if low, high, ok := bounds(form); ok {
		if strings.HasPrefix(form, "number, ") {
			return number(atoi(low), atoi(high))
		}
		a, _ := units.ParseInterval(low)
		b, _ := units.ParseInterval(high)
		return seconds(a, b)
	}
	switch {
	case strings.HasPrefix(form, "fraction, "):
		return []string{"0.01", "1000", "1.25"}, []string{"0.005", "2000", "NaN", "Inf", "x"}
	case strings.HasPrefix(form, "up to 100 numbers, "):
		good, bad = number(0, 1000000)
		return append(good, "1 2 3", " 1\t2 ", strings.Repeat("1 ", 100)), append(bad, strings.Repeat("1 ", 101), "1,2", " ")
	case strings.HasPrefix(form, "up to 4 times, "):
		good, bad = seconds(time.Second, year)
		return append(good, "1h 4h 1d", "1 2 3 4 5"), append(bad, "1h x")
	case strings.Contains(form, " or ") && !strings.Contains(form, "/") && form != "name or number":
		word, _, _ := strings.Cut(form, " ")
		word = strings.TrimSuffix(word, ",")
		return []string{word, strings.ToUpper(word)}, []string{"x", word + "s"}
	}
	known, ok := samplesByForm[form]
	if !ok {
		panic("no samples of " + form)
	}
	return known.good, known.bad
}

// lowMeansLowest are the keywords for which ZMailer took a value that is too low for the
// lowest.
var lowMeansLowest = []string{"maxta", "maxchannel", "maxring", "maxthr", "overfeed"}

// bounds returns the bounds of a number or a time from the form of its kind.
func bounds(form string) (low, high string, ok bool) {
	kind, rest, _ := strings.Cut(form, ", ")
	low, high, ok = strings.Cut(rest, " to ")
	return low, high, ok && (kind == "number" || kind == "time")
}

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

var samplesByForm = map[string]struct{ good, bad []string }{
	"x, x/N or x/sqrt(N), x 0 to 1": {
		[]string{"0", "1", "0.5", "1/N", "0.25/n", "1/sqrt(N)", "1 / SQRT( n )"},
		[]string{"1.5", "-1", "2/N", "1/M", "1/sqrt(M)", "/N", "1/", "NaN", "Inf", "x"},
	},
	formFlag: {[]string{"", "0", "1", "2", "yes", "No", "on", "off", "true", "false"}, []string{"maybe"}},
	"N/time": {[]string{"1/1s", "100/1m", "0", "1000000000/365d"}, []string{"100", "100/", "/1m", "-1/1m", "0/1m", "100/0", "100/1y", "1/366d", "1/1m, 2026-12-01 2/1m"}},
	"redis://[user:password@]host:port/db": {
		[]string{"redis://localhost", "rediss://u:p@h:1/2", "redis://a:1/0?master_name=m&addr=b:2&ttl=3s", "redis://[::1]:6379/3"},
		[]string{"localhost:6379", "http://h", "redis://h/x", "redis://a:1,b:2/1", "redis://h?ttl=1", "redis://h?color=red", "redis://"},
	},
	"words":          {[]string{"mailbox", "A=b C=d x -y $host"}, []string{" ", "A=b"}},
	"name or number": {[]string{"root", "0", "65534", "4294967294"}, []string{"nosuch", "1x", "4294967295", "-1"}},
	"text":           {[]string{"x", "a b"}, []string{" "}},
	"path":           {[]string{"/dev/null"}, []string{" "}},
	"UNIX:/path":     {[]string{"/x", "UNIX:/x"}, []string{"UNIX:x", "UDP:1", "TCP:0", "x:0", "TCP:174", "174"}},
	"UNIX:/path, TCP:port, TCP:service or TCP:host:port": {
		[]string{"/x", "UNIX:/x", "TCP:174", "174", "TCP:smtp", "TCP:127.0.0.1:1"}, []string{"UNIX:x", "UDP:1", "TCP:0", "x:0"},
	},
	"UNIX:/path, TCP:port, TCP:service or TCP:host:port, or several of them": {
		[]string{"/x", "TCP:174", "TCP:174 UNIX:/x"}, []string{"UNIX:x", "UDP:1", "TCP:174 UNIX:x"},
	},
}

func TestEveryValueOfEveryKeyword(t *testing.T) {
	for _, r := range keywords {
		for _, name := range append([]string{r.name, strings.ToUpper(r.name)}, r.aliases...) {
			tryRow(t, &r, "x command=y\n\t", name)
		}
	}
	for _, r := range params {
		for _, name := range append([]string{r.name, strings.ToUpper(r.name)}, r.aliases...) {
			tryRow(t, &r, "x command=y\n", "PARAM"+name)
		}
	}
}

func tryRow(t *testing.T, r *row, before, name string) {
	t.Helper()
	good, bad := samples(r.kind)
	if slices.Contains(lowMeansLowest, r.name) {
		good, bad = append(good, bad[0], "-5"), bad[1:]
	}
	if r.kind.form != formFlag {
		for _, text := range []string{before + name, before + name + "=", before + name + `=""`, before + name + "=\n"} {
			wantError(t, text, name+" needs a value")
		}
	}
	for _, value := range good {
		text := before + name + `="` + value + `"`
		// The longest wait cannot be shorter than the shortest.
		if strings.EqualFold(name, "minbackoff") {
			text += " maxbackoff=365d"
		}
		if strings.EqualFold(name, "maxbackoff") {
			text += " minbackoff=1s"
		}
		if _, err := Parse("f", []byte(text), debian(0)); err != nil {
			t.Errorf("%s=%q: %v", name, value, err)
		}
	}
	for _, value := range bad {
		text := before + name + `="` + value + `"`
		if strings.TrimSpace(value) == "" {
			wantError(t, text, name+" needs a value")
			continue
		}
		wantError(t, text, fmt.Sprintf("%s=%q: ", name, strings.TrimSpace(value)))
	}
	// Who goes beyond bounds is told them.
	if low, high, ok := bounds(r.kind.form); ok && high != units.FormatInterval(units.MaxInterval) {
		beyond := high + "1s"
		if n, err := strconv.Atoi(high); err == nil {
			beyond = strconv.Itoa(n + 1)
		}
		wantError(t, before+name+"="+beyond, "must be from "+low+" to "+high)
	}
	if r.preset != "" {
		if _, err := r.kind.parse(r.preset, &reader{system: debian(0), readingDefaults: true}); err != nil {
			t.Errorf("the default of %s: %v", name, err)
		}
	}
}

func wantError(t *testing.T, text, want string) {
	t.Helper()
	if _, err := Parse("f", []byte(text), debian(0)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%q: got %v, want %s", text, err, want)
	}
}

func TestTableIsConsistent(t *testing.T) {
	for _, table := range [][]string{names(keywords), names(params)} {
		seen := make(map[string]bool)
		for _, name := range table {
			if seen[name] || name != strings.ToLower(name) {
				t.Errorf("%q is there twice, or not in lower case", name)
			}
			seen[name] = true
		}
	}
}

func TestSpecialValues(t *testing.T) {
	for text, want := range map[string]string{
		"retries=0":                    "retries=[0]", // brute force, which ZMailer refused
		"maxta=-1":                     "maxta=0",
		"maxchannels=-7":               "maxchannel=0",
		"maxthr=0":                     "maxthr=1",
		"overfeed=-3":                  "overfeed=0",
		"expiry=0":                     "expiry=0s",
		"expiry2=0":                    "expiry2=24h0m0s",
		"expiry2=5":                    "expiry2=5s",
		"positivefeedback=1/SQRT(N)":   fmt.Sprint("positivefeedback=", limit.Feedback{Amount: 1, Per: limit.PerSqrt}),
		"negativefeedback=0.25":        fmt.Sprint("negativefeedback=", limit.Feedback{Amount: 0.25, Per: limit.PerOne}),
		"cohortlimit=2.5":              "cohortlimit=2.5",
		"backoff=AGE":                  fmt.Sprint("backoff=", rule.BackoffAge),
		"marking=scheduler":            fmt.Sprint("marking=", ta.SchedulerMarks),
		"share=none":                   "share=none",
		"user=mail":                    "user=8",
		"group=12":                     "group=12",
		"priority=0":                   "priority=0",
		"queueonly":                    "queueonly=true",
		"ageorder=0":                   "ageorder=false",
		`reporttimes="1h 4h"`:          "reporttimes=[1h0m0s 4h0m0s]",
		`command="A=b  smtp	-e $host"`: "command=[A=b smtp -e $host]",
	} {
		p := mustParse(t, "x command=y "+text).Effective(0)
		if got := lines(keywords, p); !slices.Contains(got, want) {
			t.Errorf("%s gives\n%s\nwithout %s", text, strings.Join(got, "\n"), want)
		}
	}
}

// What */* switches on a clause can switch off.
func TestFlagCanBeSwitchedOff(t *testing.T) {
	file := mustParse(t, "*/* ageorder queueonly\nx ageorder=no command=y")
	if p := file.Effective(1); p.AgeOrder || !p.QueueOnly {
		t.Errorf("ageorder %v, queueonly %v", p.AgeOrder, p.QueueOnly)
	}
}

// A second */* is in force for clauses after it.
func TestDefaultsAccumulate(t *testing.T) {
	file := mustParse(t, "*/* interval=5m jitter=1\na command=x\n* interval=6m\nb command=x")
	for i, want := range map[int]rule.Params{
		1: {Interval: 5 * time.Minute, Jitter: 1},
		3: {Interval: 6 * time.Minute, Jitter: 1},
	} {
		if p := file.Effective(i); p.Interval != want.Interval || p.Jitter != want.Jitter {
			t.Errorf("clause %d has interval %s, jitter %d", i, p.Interval, p.Jitter)
		}
	}
}

// names returns every name and alias of a table.
func names(table []row) []string {
	var out []string
	for _, r := range table {
		out = append(append(out, r.name), r.aliases...)
	}
	return out
}
