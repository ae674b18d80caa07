package config

// The kinds of values: what a keyword or PARAM may be set to.

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"zsched/internal/redisurl"
	"zsched/internal/units"
	"zsched/scheduler"
)

// kind is a kind of value: how it is read, which field of a T it sets, and how
// it is shown.
type kind[T any] interface {
	// read checks a value and returns the function that applies it. The reader
	// adds the name and the value to the error.
	read(text string, r *reader) (func(*T), error)
	// show returns the current value as a file would set it, or "" if there is
	// none.
	show(*T) string
	// String returns the kind and its bounds as scheduler.cf(5) gives them.
	String() string
}

// span is a time.
type span[T any] struct {
	field     func(*T) *time.Duration
	low, high time.Duration
	zero      time.Duration // the value that 0 stands for
}

func (k span[T]) String() string {
	return fmt.Sprintf("time, %s to %s", units.FormatInterval(k.low), units.FormatInterval(k.high))
}

func (k span[T]) read(text string, _ *reader) (func(*T), error) {
	d, err := units.ParseInterval(text)
	if err != nil {
		return nil, err
	}
	if d < k.low || d > k.high {
		return nil, fmt.Errorf("must be from %s to %s", units.FormatInterval(k.low), units.FormatInterval(k.high))
	}
	if d == 0 {
		d = k.zero
	}
	return func(v *T) { *k.field(v) = d }, nil
}

func (k span[T]) show(v *T) string { return units.FormatInterval(*k.field(v)) }

// count is a whole number.
type count[T any] struct {
	field     func(*T) *int
	low, high int
	floor     bool          // a value below low means low, as in ZMailer
	then      func(*T)      // called after the field is set; may be nil
	unset     func(*T) bool // reports whether there is no value; may be nil
}

func (k count[T]) String() string {
	return fmt.Sprintf("number, %d to %d", k.low, k.high)
}

func (k count[T]) read(text string, _ *reader) (func(*T), error) {
	n, err := parseCount(text, k.low, k.high, k.floor)
	if err != nil {
		return nil, err
	}
	return func(v *T) {
		if k.field != nil {
			*k.field(v) = n
		}
		if k.then != nil {
			k.then(v)
		}
	}, nil
}

func (k count[T]) show(v *T) string {
	if k.unset != nil && k.unset(v) {
		return ""
	}
	return strconv.Itoa(*k.field(v))
}

func parseCount(text string, low, high int, floor bool) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && floor {
		n = max(n, low)
	}
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
	}
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("must be from %d to %d", low, high)
	}
	return n, nil
}

// ratio is a number with a fraction.
type ratio[T any] struct {
	field     func(*T) *float64
	low, high float64
}

func (k ratio[T]) String() string { return fmt.Sprintf("fraction, %g to %g", k.low, k.high) }

func (k ratio[T]) read(text string, _ *reader) (func(*T), error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || x < k.low || x > k.high {
		return nil, fmt.Errorf("must be a number from %g to %g", k.low, k.high)
	}
	return func(v *T) { *k.field(v) = x }, nil
}

func (k ratio[T]) show(v *T) string { return strconv.FormatFloat(*k.field(v), 'g', -1, 64) }

// feedback is x, x/N or x/sqrt(N) with x from 0 to 1.
type feedback[T any] struct {
	field func(*T) *scheduler.Feedback
}

// feedbackForms are the endings of a feedback value, the empty one last.
var feedbackForms = [...]struct {
	suffix string
	per    scheduler.Per
}{{"/sqrt(N)", scheduler.PerSqrt}, {"/N", scheduler.PerN}, {"", scheduler.PerOne}}

func (k feedback[T]) String() string { return "x, x/N or x/sqrt(N), x 0 to 1" }

func (k feedback[T]) read(text string, _ *reader) (func(*T), error) {
	packed := strings.ToLower(strings.Join(strings.Fields(text), ""))
	for _, form := range feedbackForms {
		number, found := strings.CutSuffix(packed, strings.ToLower(form.suffix))
		if !found {
			continue
		}
		x, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(x) || x < 0 || x > 1 {
			break
		}
		return func(v *T) { *k.field(v) = scheduler.Feedback{Amount: x, Per: form.per} }, nil
	}
	return nil, errors.New("must be x, x/N or x/sqrt(N) with x from 0 to 1, such as 1/N or 0.25")
}

func (k feedback[T]) show(v *T) string {
	f := *k.field(v)
	number := strconv.FormatFloat(f.Amount, 'g', -1, 64)
	for _, form := range feedbackForms {
		if form.per == f.Per {
			return number + form.suffix
		}
	}
	return number
}

// choice is one of several words.
type choice[T any] struct {
	words []string
	put   func(*T, int) // takes the index of the word
	index func(*T) int
}

func (k choice[T]) String() string {
	last := len(k.words) - 1
	return strings.Join(k.words[:last], ", ") + " or " + k.words[last]
}

func (k choice[T]) read(text string, _ *reader) (func(*T), error) {
	for i, word := range k.words {
		if strings.EqualFold(word, text) {
			return func(v *T) { k.put(v, i) }, nil
		}
	}
	return nil, fmt.Errorf("must be %s", k)
}

func (k choice[T]) show(v *T) string { return k.words[k.index(v)] }

// flag is on if it has no value; a value may switch it on or off.
type flag[T any] struct {
	field func(*T) *bool
	// off says that in ZMailer, too, the value 0 switched the flag off.
	off bool
}

func (k flag[T]) String() string { return "flag" }

func (k flag[T]) read(text string, r *reader) (func(*T), error) {
	on, err := parseFlag(text)
	if err != nil {
		return nil, err
	}
	if !on && !k.off {
		r.differ("this is off now; in ZMailer a flag with any value was on")
	}
	return func(v *T) { *k.field(v) = on }, nil
}

func parseFlag(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "", "yes", "on", "true":
		return true, nil
	case "no", "off", "false":
		return false, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return false, errors.New("must be yes or no; without a value it is yes")
	}
	return n != 0, nil
}

func (k flag[T]) show(v *T) string {
	if *k.field(v) {
		return "yes"
	}
	return "no"
}

// text is a string. In a path ${NAME} is expanded.
type text[T any] struct {
	field func(*T) *string
	path  bool
}

func (k text[T]) String() string {
	if k.path {
		return "path"
	}
	return "text"
}

func (k text[T]) read(value string, r *reader) (func(*T), error) {
	if k.path {
		value = r.expand(value)
	}
	return func(v *T) { *k.field(v) = value }, nil
}

func (k text[T]) show(v *T) string {
	if *k.field(v) == "" {
		return ""
	}
	return `"` + *k.field(v) + `"`
}

// store is the address of the store of the cluster.
type store struct{}

func (k store) String() string { return "redis://[user:password@]host:port/db" }

func (k store) read(text string, _ *reader) (func(*Params), error) {
	a, err := redisurl.Parse(text)
	if err != nil {
		return nil, err
	}
	return func(v *Params) { v.Cluster = &a }, nil
}

// show leaves out user and password.
func (k store) show(v *Params) string {
	if v.Cluster == nil {
		return ""
	}
	return `"` + v.Cluster.String() + `"`
}
