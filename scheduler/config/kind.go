package config

// The kinds of values: what a keyword or PARAM may be set to.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/internal/redisurl"
	"zsched/internal/units"
	"zsched/scheduler"
)

// kind is a kind of value: how it is read, and how a T shows it.
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

// field is the kind of a value that is one field of a T.
type field[T, V any] struct {
	of     func(*T) *V
	form   string // the kind and its bounds
	parse  func(text string, r *reader) (V, error)
	format func(V) string
	also   func(*T)      // called after the field is set; may be nil
	unset  func(*T) bool // reports whether there is no value; may be nil
}

func (k field[T, V]) String() string { return k.form }

func (k field[T, V]) read(text string, r *reader) (func(*T), error) {
	value, err := k.parse(text, r)
	if err != nil {
		return nil, err
	}
	return func(v *T) {
		*k.of(v) = value
		if k.also != nil {
			k.also(v)
		}
	}, nil
}

func (k field[T, V]) show(v *T) string {
	if k.unset != nil && k.unset(v) {
		return ""
	}
	return k.format(*k.of(v))
}

// span is a time.
func span[T any](of func(*T) *time.Duration, low, high time.Duration) field[T, time.Duration] {
	return field[T, time.Duration]{
		of: of, form: "time, " + units.FormatInterval(low) + " to " + units.FormatInterval(high), format: units.FormatInterval,
		parse: func(text string, _ *reader) (time.Duration, error) { return parseSpan(text, low, high) },
	}
}

func parseSpan(text string, low, high time.Duration) (time.Duration, error) {
	d, err := units.ParseInterval(text)
	if err == nil && (d < low || d > high) {
		err = fmt.Errorf("must be from %s to %s", units.FormatInterval(low), units.FormatInterval(high))
	}
	return d, err
}

// zeroIs is a time of which 0 stands for another one.
func zeroIs[T any](k field[T, time.Duration], zero time.Duration) field[T, time.Duration] {
	parse := k.parse
	k.parse = func(text string, r *reader) (time.Duration, error) {
		d, err := parse(text, r)
		if d == 0 {
			d = zero
		}
		return d, err
	}
	return k
}

// count is a whole number.
func count[T any](of func(*T) *int, low, high int) field[T, int] {
	return field[T, int]{
		of: of, form: fmt.Sprintf("number, %d to %d", low, high), format: strconv.Itoa,
		parse: func(text string, _ *reader) (int, error) { return parseCount(text, low, high) },
	}
}

// atLeast is a whole number. A value below low means low, as in ZMailer.
func atLeast[T any](of func(*T) *int, low, high int) field[T, int] {
	k := count(of, low, high)
	k.parse = func(text string, _ *reader) (int, error) {
		if n, err := strconv.Atoi(text); err == nil && n < low {
			return low, nil
		}
		return parseCount(text, low, high)
	}
	return k
}

func parseCount(text string, low, high int) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("must be a whole number from %d to %d", low, high)
	case err != nil || n < low || n > high:
		return 0, fmt.Errorf("must be from %d to %d", low, high)
	}
	return n, nil
}

// onlyOne is nice or priority: of these two, the later in the file is in force.
func onlyOne(k field[values, int], isPriority bool) field[values, int] {
	k.also = func(v *values) {
		v.PrioritySet = isPriority
		if isPriority {
			v.Nice = 0
		} else {
			v.Priority = 0
		}
	}
	k.unset = func(v *values) bool { return v.PrioritySet != isPriority }
	return k
}

// ratio is a number with a fraction.
func ratio[T any](of func(*T) *float64, low, high float64) field[T, float64] {
	return field[T, float64]{
		of: of, form: fmt.Sprintf("fraction, %g to %g", low, high), format: formatFraction,
		parse: func(text string, _ *reader) (float64, error) {
			x, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsNaN(x) || x < low || x > high {
				return 0, fmt.Errorf("must be a number from %g to %g", low, high)
			}
			return x, nil
		},
	}
}

func formatFraction(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// feedback is x, x/N or x/sqrt(N) with x from 0 to 1.
func feedback[T any](of func(*T) *scheduler.Feedback) field[T, scheduler.Feedback] {
	return field[T, scheduler.Feedback]{
		of: of, form: "x, x/N or x/sqrt(N), x 0 to 1", parse: parseFeedback,
		format: func(f scheduler.Feedback) string { return formatFraction(f.Amount) + feedbackForms[f.Per] },
	}
}

// feedbackForms are the endings of a feedback value.
var feedbackForms = map[scheduler.Per]string{scheduler.PerSqrt: "/sqrt(N)", scheduler.PerN: "/N", scheduler.PerOne: ""}

func parseFeedback(text string, _ *reader) (scheduler.Feedback, error) {
	packed := strings.ToLower(strings.Join(strings.Fields(text), ""))
	number, _, _ := strings.Cut(packed, "/")
	x, err := strconv.ParseFloat(number, 64)
	for per, ending := range feedbackForms {
		if err == nil && x >= 0 && x <= 1 && packed[len(number):] == strings.ToLower(ending) {
			return scheduler.Feedback{Amount: x, Per: per}, nil
		}
	}
	return scheduler.Feedback{}, errors.New("must be x, x/N or x/sqrt(N) with x from 0 to 1, such as 1/N or 0.25")
}

// choice is one of several words. The value is the word's index.
func choice[T any, V ~uint8](of func(*T) *V, words ...string) field[T, V] {
	return field[T, V]{
		of: of, form: orList(words), format: func(v V) string { return words[v] },
		parse: func(text string, _ *reader) (V, error) {
			i, err := wordIndex(words, text)
			return V(i), err
		},
	}
}

// oneOf is one of several words, which is the value itself.
func oneOf[T any](of func(*T) *string, words ...string) field[T, string] {
	return field[T, string]{
		of: of, form: orList(words), format: func(word string) string { return word },
		parse: func(text string, _ *reader) (string, error) {
			i, err := wordIndex(words, text)
			return words[i], err
		},
	}
}

func orList(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func wordIndex(words []string, text string) (int, error) {
	i := slices.IndexFunc(words, func(word string) bool { return strings.EqualFold(word, text) })
	if i < 0 {
		return 0, errors.New("must be " + orList(words))
	}
	return i, nil
}

// formFlag is the form of a flag, which is on if it has no value.
const formFlag = "flag"

// flag is on if it has no value; a value may switch it on or off.
func flag[T any](of func(*T) *bool) field[T, bool] {
	return field[T, bool]{
		of: of, form: formFlag, parse: parseFlag,
		format: func(on bool) string {
			if on {
				return "yes"
			}
			return "no"
		},
	}
}

func parseFlag(text string, _ *reader) (bool, error) {
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

// text is a string.
func text[T any](of func(*T) *string) field[T, string] {
	return field[T, string]{
		of: of, form: "text", format: quote,
		parse: func(text string, _ *reader) (string, error) { return text, nil },
	}
}

// path is the name of a file, in which ${NAME} is expanded.
func path[T any](of func(*T) *string) field[T, string] {
	return field[T, string]{
		of: of, form: "path", format: quote,
		parse: func(text string, r *reader) (string, error) { return r.expand(text), nil },
	}
}

// quote writes a value that may have blanks; nothing if it is empty.
func quote(value string) string {
	if value == "" {
		return ""
	}
	return `"` + value + `"`
}

// store is the address of the store of the cluster. It is shown without user and password.
func store[T any](of func(*T) **redisurl.Address) field[T, *redisurl.Address] {
	return field[T, *redisurl.Address]{
		of: of, form: "redis://[user:password@]host:port/db",
		parse: func(text string, _ *reader) (*redisurl.Address, error) {
			a, err := redisurl.Parse(text)
			return &a, err
		},
		format: func(a *redisurl.Address) string {
			if a == nil {
				return ""
			}
			return quote(a.String())
		},
	}
}
