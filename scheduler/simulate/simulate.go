// Package simulate runs the scheduler's core against models of agents and
// servers, in virtual time, and compares the results with published figures.
//
//	for _, scene := range simulate.Scenes() {
//	        result := scene.Run(seed)
//	        // result.Figures: ours next to the reference; result.Plots: as SVG
//	}
//
// A Clock has the virtual time. A Node is one core with its spool and agents, as
// the clock's events. A Server is a model of a destination. A Scene puts these
// together: a load, the settings of scheduler.cf(5), servers, and what is
// measured. The same seed gives the same figures and the same bytes of each
// plot.
//
// A new scene is a function from the seed to a Result, and an entry in Scenes.
package simulate

import (
	"fmt"
	"math"
)

// Scene is one experiment.
type Scene struct {
	Name  string // as an argument of cmd/simulate
	Title string
	// Setting says what is simulated. Reference names the source of the figures
	// that ours are compared with.
	Setting, Reference string
	// Run runs the scene. All random numbers come from the seed.
	Run func(seed uint64) Result
}

// Result is what a scene has measured.
type Result struct {
	Figures []Figure
	Plots   []Plot
}

// Scenes returns all scenes in the order in which they are printed.
func Scenes() []Scene {
	return []Scene{
		growthScene, limiterScene, connectScene, greetingScene,
		sequencesScene, inflationScene,
		sessionsScene, sharesScene, waitsScene, behindScene, ageScene,
		deadScene, outageScene, shapingScene, clusterScene,
	}
}

// Figure is one result next to the reference.
type Figure struct {
	Name      string
	Ours      string
	Reference string // "" if there is none
	Bound     string // what must hold for ours, in words; "" if nothing must
	Holds     bool
	Why       string // why ours differs from the reference
}

// near is a figure that must be within a distance of the reference.
func near(name string, decimals int, ours, reference, within float64) Figure {
	return Figure{
		Name: name, Ours: decimal(decimals, ours), Reference: decimal(decimals, reference),
		Bound: fmt.Sprintf("within %g", within), Holds: math.Abs(ours-reference) <= within,
	}
}

// atMost is a figure that must not be above the bound.
func atMost(name string, decimals int, ours, most float64) Figure {
	return Figure{
		Name: name, Ours: decimal(decimals, ours),
		Bound: "at most " + decimal(decimals, most), Holds: ours <= most+1e-9,
	}
}

// atLeast is a figure that must not be below the bound.
func atLeast(name string, decimals int, ours, least float64) Figure {
	return Figure{
		Name: name, Ours: decimal(decimals, ours),
		Bound: "at least " + decimal(decimals, least), Holds: ours >= least-1e-9,
	}
}

// same is a figure that must equal the reference.
func same(name, ours, reference string) Figure {
	return Figure{Name: name, Ours: ours, Reference: reference, Bound: "the same", Holds: ours == reference}
}

// unbounded is a figure without a bound.
func unbounded(name string, decimals int, ours float64) Figure {
	return Figure{Name: name, Ours: decimal(decimals, ours), Holds: true}
}

// withReference adds the reference.
func (f Figure) withReference(reference string) Figure {
	f.Reference = reference
	return f
}

// because adds the reason why ours differs from the reference, unless both are
// printed the same.
func (f Figure) because(why string) Figure {
	if f.Ours != f.Reference {
		f.Why = why
	}
	return f
}

func decimal(decimals int, x float64) string { return fmt.Sprintf("%.*f", decimals, x) }
