package simulate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestTicks(t *testing.T) {
	for _, tt := range []struct {
		end  float64
		n    int
		want string
	}{
		{120, 12, "0 10 20 30 40 50 60 70 80 90 100 110 120"},
		{35, 12, "0 5 10 15 20 25 30 35"},
		{1000, 6, "0 200 400 600 800 1000"},
		{22, 6, "0 5 10 15 20"},
		{0.5, 6, "0 0.1 0.2 0.3 0.4 0.5"},
	} {
		var got []string
		for _, x := range ticks(tt.end, tt.n) {
			got = append(got, label(x))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%v with %d: %s, want %s", tt.end, tt.n, s, tt.want)
		}
	}
}

func TestLinesAreThinned(t *testing.T) {
	points := []Point{{0, 1}, {1, 1}, {2, 1}, {3, 4}, {3.1, 5}, {9, 5}, {11, 5}, {12, 6}}
	for _, tt := range []struct {
		line Line
		want string
	}{
		{Line{Points: points, Step: true}, "[{0 1} {2 1} {3 4} {3.1 5} {9 5}]"},
		{Line{Points: points}, "[{0 1} {2 1} {3 4} {9 5}]"},
	} {
		if got := fmt.Sprint(tt.line.thin(10, 0.5)); got != tt.want {
			t.Errorf("steps %v: %s, want %s", tt.line.Step, got, tt.want)
		}
	}
}

// TestSVGIsWellFormed: whatever is in the names, a plot is XML.
func TestSVGIsWellFormed(t *testing.T) {
	p := Plot{
		Title: "a < b & \"c\"", X: "<x>", XMax: 10,
		Panels: []Panel{{
			Title: "&", Y: "]]>", YMax: 5, Marks: []Mark{{4, "<limit>"}},
			Lines: []Line{{Name: "a<b", Points: []Point{{0, 0}, {5, 9}}}, {Name: "b", Step: true, Points: []Point{{0, 1}, {5, 2}}}, {}},
		}, {Y: "y", YMax: 1}},
	}
	svg := p.SVG()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	var words []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if c, ok := token.(xml.CharData); ok {
			words = append(words, string(c))
		}
	}
	for _, want := range []string{p.Title, p.X, "]]>", "<limit>", "a<b"} {
		if !slices.Contains(words, want) {
			t.Errorf("%q is not in the plot", want)
		}
	}
	// The values 1 and 2 of the steps, and what is above the y axis at its end.
	for _, want := range []string{`d="M64 154H362V130"`, `L362 58"`} {
		if !bytes.Contains(svg, []byte(want)) {
			t.Errorf("%s is not in the plot: %s", want, svg)
		}
	}
}

func TestPage(t *testing.T) {
	scene := Scene{Name: "x", Title: "An example", Setting: strings.Repeat("word ", 30), Reference: "a book"}
	result := Result{
		Figures: []Figure{
			near("first", 1, 16.6, 16.5, 1).because("chance"),
			atMost("second", 2, 3, 2),
			unbounded("third", 0, 7).withReference("7").because("not needed"),
		},
		Plots: []Plot{{Name: "example", Title: "A plot"}},
	}
	var b strings.Builder
	if err := scene.Print(&b, result, true); err != nil {
		t.Fatal(err)
	}
	want := `## An example (x)

word word word word word word word word word word word word word word word word word word word word
word word word word word word word word word word

Reference: a book.

| figure | ours | reference | must be      | is     | note |
|--------|------|-----------|--------------|--------|------|
| first  | 16.6 | 16.5      | within 1     | yes    | 1    |
| second | 3.00 |           | at most 2.00 | **NO** |      |
| third  | 7    | 7         |              |        |      |

Why our figures differ from the reference:

1. chance.

![A plot](example.svg)

`
	if got := b.String(); got != want {
		t.Errorf("the page is\n%s, want\n%s", got, want)
	}
}
