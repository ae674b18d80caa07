package spool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"zsched/ctlfile"
	"zsched/scheduler"
)

// outcomesIn are the tags of the d lines of a file, with the recipient's user
// and the action: " bob@b.example failed".
func (o *testSpool) outcomesIn(path string) []string {
	o.t.Helper()
	var list []string
	for _, line := range o.lines(path) {
		m := regexp.MustCompile(`^d(.).*\t([^\t\x01]*)\x01([a-z]*)`).FindStringSubmatch(line)
		if m == nil {
			o.t.Fatalf("d line %q", line)
		}
		list = append(list, m[1]+m[2]+" "+m[3])
	}
	return list
}

func done(line, tag string) string { return strings.Replace(line, "r ", "r"+tag, 1) }

// An agent tags a recipient and dies before it says why, or the scheduler dies
// before it writes that down.
func TestOutcomeThatNobodyRecordedIsOwed(t *testing.T) {
	const success, never = "N NOTIFY=SUCCESS", "N NOTIFY=NEVER"
	for name, c := range map[string]struct {
		lines []string
		want  []string
	}{
		"failed":                {[]string{done(toBob, "-")}, []string{" bob@b.example failed"}},
		"failed, never":         {[]string{done(toBob, "-"), never}, nil},
		"failed, success only":  {[]string{done(toBob, "-"), success}, nil},
		"delivered":             {[]string{done(toBob, "+")}, nil},
		"delivered, asked":      {[]string{done(toBob, "+"), success}, []string{" bob@b.example delivered"}},
		"two":                   {[]string{done(toBob, "-"), done(toCarol, "-")}, []string{" bob@b.example failed", " carol failed"}},
		"alternative delivered": {[]string{"X-          1 smtp b b 1", "X+          1 smtp c c 1"}, nil},
		"alternative asked":     {[]string{"X+          1 smtp b b 1", success, "X+          1 smtp c c 1", success}, nil},
	} {
		text := control("7", append(c.lines, toBob)...)
		readings := map[string]func(o *testSpool) bool{
			"take":   func(o *testSpool) bool { return o.loaded("7").Owes },
			"reread": func(o *testSpool) bool { o.s.Reread(1, "7", scheduler.Read{}); return answered[scheduler.Read](o).Owes },
		}
		for reading, read := range readings {
			o := newTestSpool(t)
			o.put("7", text)
			o.open(Options{})
			for range 2 { // the second time nothing is added
				if owes := read(o); owes != (c.want != nil) {
					t.Errorf("%s, %s: owes %v", name, reading, owes)
				}
				if got := o.outcomesIn("transport/7"); !slices.Equal(got, c.want) {
					t.Errorf("%s, %s: %q, want %q", name, reading, got, c.want)
				}
			}
		}
	}
}

func TestFinishRecordsAnOutcomeThatWasLost(t *testing.T) {
	o := newTestSpool(t)
	o.put("7", control("7", done(toBob, "-")))
	if r := o.open(Options{}).finished("7", true); r.Err != nil {
		t.Errorf("%+v", r)
	}
	if got := o.outcomesIn("corrupt/transport/7"); !slices.Equal(got, []string{" bob@b.example failed"}) {
		t.Errorf("%q", got)
	}
}

// A delay that the sender was told of says nothing about how it ended.
func TestDelayIsNoOutcome(t *testing.T) {
	text := control("7", done(toBob, "-"))
	o := newTestSpool(t)
	o.put("7", text+diagnose(offset(t, text, "@b.example"), "bob@b.example", "delayed"))
	if !o.open(Options{}).loaded("7").Owes {
		t.Error("owes nothing")
	}
}

// toldOutcomes is a Reporter that keeps the recipients and actions of its notices.
type toldOutcomes []string

func (told *toldOutcomes) Report(o *Owed) (string, error) {
	for _, i := range o.Lines {
		line := &o.File.Diagnostics[i]
		*told = append(*told, fmt.Sprint(line.Recipient, " ", action(line.Notary)))
	}
	return "router/1", nil
}

func (told *toldOutcomes) AnswersNullSender() bool { return false }

// On a full disk a d line was cut short, and another line followed before its writer could
// remove it. The agent has tagged the recipient, and the power fails before the scheduler
// writes the line again. Wherever the line was cut, the sender is told of the success,
// and of no failure.
func TestOutcomeIsOwedAlthoughItsLineWasCutShort(t *testing.T) {
	text := control("7", done(toBob, "+"), "N NOTIFY=SUCCESS,FAILURE", done(toCarol, "-"))
	whole := diagnose(offset(t, text, "@b.example"), "bob@b.example", "delivered")
	carols := diagnose(offset(t, text, "carol"), "carol", "failed")
	for cut := 1; cut < len(whole); cut++ {
		o := newTestSpool(t)
		var told toldOutcomes
		// An appended line ends a torn one with two blanks.
		o.put("7", text+whole[:cut]+"  \n"+carols)
		o.open(Options{Reporter: &told})
		o.loaded("7")
		if r := o.finished("7", true); r.Err != nil {
			t.Errorf("cut after %q: %v", whole[:cut], r.Err)
		}
		slices.Sort(told)
		want := toldOutcomes{
			fmt.Sprint(offset(t, text, "@b.example"), " delivered"),
			fmt.Sprint(offset(t, text, "carol"), " failed"),
		}
		slices.Sort(want)
		if !slices.Equal(told, want) {
			t.Errorf("cut after %q: the sender is told %q, want %q", whole[:cut], told, want)
		}
	}
}

// What nobody is to be told is written down as told.
func TestOutcomeThatNobodyIsToldOfIsNotOwed(t *testing.T) {
	text := control("7", toBob, "N NOTIFY=SUCCESS,FAILURE", toCarol)
	for name, end := range map[string]func(o *testSpool){
		"killed": func(o *testSpool) {
			o.marked("7", ctlfile.Mark{Offset: offset(t, text, "bob@b"), Tag: ctlfile.Delivered})
		},
		"resubmitted": func(o *testSpool) {
			o.resubmitted(scheduler.Resubmit{Path: "7", Offsets: []int64{offset(t, text, "bob@b")}})
		},
		"rerouted": func(o *testSpool) {
			o.resubmitted(scheduler.Resubmit{Path: "7", Offsets: []int64{offset(t, text, "bob@b")}, Channel: "x"})
		},
	} {
		o := newRoutedSpool(t)
		o.put("7", text)
		end(o.open(Options{}))
		if got, want := o.outcomesIn("transport/7"), []string{"+bob@b.example delivered"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if o.loaded("7").Owes {
			t.Errorf("%s: owes", name)
		}
	}
}
