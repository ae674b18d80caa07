package simulate

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// long are the scenes that only "make simulate" runs, which looks at the bounds as well.
var long = []string{"outage", "waits", "inflation"}

// TestFiguresAreWithinTheirBounds runs the other scenes. Time is virtual, so the
// verdicts do not depend on the machine.
func TestFiguresAreWithinTheirBounds(t *testing.T) {
	for _, scene := range Scenes() {
		if slices.Contains(long, scene.Name) {
			continue
		}
		t.Run(scene.Name, func(t *testing.T) {
			t.Parallel()
			result := scene.Run(1)
			if len(result.Figures) == 0 {
				t.Error("the scene has no figure")
			}
			for _, f := range result.Figures {
				if !f.Holds {
					t.Errorf("%s: %s, must be %s (reference %s)", f.Name, f.Ours, f.Bound, f.Reference)
				}
				if f.Reference != "" && f.Ours != f.Reference && f.Why == "" {
					t.Errorf("%s: %s instead of %s, and no reason is given", f.Name, f.Ours, f.Reference)
				}
			}
		})
	}
}

// TestBoundsCanFail: a figure beyond its bound does not hold, and one at it
// does.
func TestBoundsCanFail(t *testing.T) {
	for _, tt := range []struct {
		figure Figure
		holds  bool
	}{
		{near("", 1, 17.5, 16.5, 1), true},
		{near("", 1, 17.6, 16.5, 1), false},
		{near("", 1, 15.4, 16.5, 1), false},
		{atMost("", 3, 1.5, 1.5), true},
		{atMost("", 3, 1.501, 1.5), false},
		{atLeast("", 1, 19, 19), true},
		{atLeast("", 1, 18.9, 19), false},
		{same("", "1213", "1213"), true},
		{same("", "1123", "1213"), false},
	} {
		if tt.figure.Holds != tt.holds {
			t.Errorf("%+v: it holds is %v, want %v", tt.figure, tt.figure.Holds, tt.holds)
		}
	}
}

// TestScenesNoticeOtherSettings: a scene whose settings are changed has other
// figures. So the figures come from the core and not from the models.
func TestScenesNoticeOtherSettings(t *testing.T) {
	sequence := func(cost int) string {
		o := newOneSession(1, cost, 0, 0, 3)
		for _, n := range []int{4, 1, 1, 1, 1} {
			o.submit(n)
		}
		o.Run(func() bool { return o.Queued() == 0 })
		return fmt.Sprint(o.picks)
	}
	if with, without := sequence(1), sequence(0); with == without {
		t.Errorf("with slotcost=1 and 0 the order is %s", with)
	}
	_, shared := ageOfSmallSender(1, "senderdomain")
	_, unshared := ageOfSmallSender(1, "none")
	if unshared < 100*shared {
		t.Errorf("with turns a small sender waits for %.1f s, without for %.1f s", shared, unshared)
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	for _, scene := range []Scene{growthScene, limiterScene, sharesScene, ageScene} {
		a, b := scene.Run(7), scene.Run(7)
		if !reflect.DeepEqual(a.Figures, b.Figures) {
			t.Errorf("%s: two runs have the figures %v and %v", scene.Name, a.Figures, b.Figures)
		}
		for i := range a.Plots {
			if !bytes.Equal(a.Plots[i].SVG(), b.Plots[i].SVG()) {
				t.Errorf("%s: two runs have different plots", scene.Name)
			}
		}
	}
}
