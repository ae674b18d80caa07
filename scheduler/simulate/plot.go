package simulate

import (
	"math"
	"strconv"
)

// Plots: what a diagram shows, its scales and ticks. svg.go draws them.

// Plot is a diagram: panels one below the other, with a common x axis.
type Plot struct {
	Name   string // of its file, without .svg
	Title  string
	X      string  // what the x axis shows
	XMax   float64 // its end; it begins at 0
	Panels []Panel
}

// Panel is one coordinate system of a plot. Its axes begin at 0.
type Panel struct {
	Title string // "" if the title of the plot is enough
	Y     string // what the y axis shows
	YMax  float64
	Lines []Line
	Marks []Mark
}

// Line is a series of points in the order of x.
type Line struct {
	Name   string // for the legend; "" if there is nothing to distinguish
	Points []Point
	Step   bool // each value holds until the next
}

// Point is in the units of the axes.
type Point struct{ X, Y float64 }

// Mark is a horizontal line at a value, with its name.
type Mark struct {
	Y    float64
	Name string
}

// ticks returns round values from 0 to the end of an axis, at most n+1 of them.
func ticks(end float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(end/float64(n))))
	for _, factor := range []float64{2, 5, 10} {
		if end/step <= float64(n) {
			break
		}
		step = factor * math.Pow(10, math.Floor(math.Log10(end/float64(n))))
	}
	var values []float64
	for i := 0; float64(i)*step <= end*(1+1e-9); i++ {
		values = append(values, float64(i)*step)
	}
	return values
}

// label writes a tick's value without superfluous digits.
func label(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// thin returns the points up to the end of the x axis, without those that make no
// visible difference: points whose value is that of both neighbours and, if the
// line has no steps, points that are closer together than distance.
func (l Line) thin(end, distance float64) []Point {
	var kept []Point
	for i, p := range l.Points {
		if p.X > end {
			break
		}
		if n := len(kept); n > 0 && i+1 < len(l.Points) {
			before, next := kept[n-1], l.Points[i+1]
			if before.Y == p.Y && p.Y == next.Y && next.X <= end || !l.Step && p.X-before.X < distance {
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept
}
