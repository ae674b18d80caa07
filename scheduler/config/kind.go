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
	"zsched/scheduler/rule"
)

// kind is a kind of value.
type kind struct {
	form string // the kind and its bounds, as scheduler.cf(5) gives them
	// parse checks a value. The reader adds the name and the value to the error.
	parse func(text string, r *reader) (any, error)
}

// kindOf is the kind of values of one type.
func kindOf[V any](form string, parse func(string, *reader) (V, error)) kind {
	return kind{form, func(text string, r *reader) (any, error) { return parse(text, r) }}
}

// alone makes a parser for kindOf of one that needs no reader.
func alone[V any](parse func(string) (V, error)) func(string, *reader) (V, error) {
	return func(text string, _ *reader) (V, error) { return parse(text) }
}

// span is a time.
func span(low, high time.Duration) kind {
	form := "time, " + units.FormatInterval(low) + " to " + units.FormatInterval(high)
	parse := func(text string) (time.Duration, error) { return parseSpan(text, low, high) }
	return kindOf(form, alone(parse))
}

func parseSpan(text string, low, high time.Duration) (time.Duration, error) {
	d, err := units.ParseInterval(text)
	if err == nil && (d < low || d > high) {
		err = fmt.Errorf("must be from %s to %s", units.FormatInterval(low), units.FormatInterval(high))
	}
	return d, err
}

// zeroIs is a kind of which 0 stands for another value.
func zeroIs(k kind, zero time.Duration) kind {
	parse := k.parse
	k.parse = func(text string, r *reader) (any, error) {
		value, err := parse(text, r)
		if value == time.Duration(0) {
			value = zero
		}
		return value, err
	}
	return k
}

// count is a whole number.
func count(low, high int) kind {
	parse := func(text string) (int, error) { return parseCount(text, low, high) }
	return kindOf(fmt.Sprintf("number, %d to %d", low, high), alone(parse))
}

// atLeast is a whole number. A value below low means low, as in ZMailer.
func atLeast(low, high int) kind {
	k := count(low, high)
	parse := k.parse
	k.parse = func(text string, r *reader) (any, error) {
		if n, err := strconv.Atoi(text); err == nil && n < low {
			return low, nil
		}
		return parse(text, r)
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

// onlyOne is for nice and priority: of these two, the later in the file is in force.
func onlyOne(isPriority bool) func(*values) {
	return func(v *values) {
		v.PrioritySet = isPriority
		if isPriority {
			v.Nice = 0
		} else {
			v.Priority = 0
		}
	}
}

// ratio is a number with a fraction.
func ratio(low, high float64) kind {
	parse := func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(x) || x < low || x > high {
			return 0, fmt.Errorf("must be a number from %g to %g", low, high)
		}
		return x, nil
	}
	return kindOf(fmt.Sprintf("fraction, %g to %g", low, high), alone(parse))
}

// feedback is x, x/N or x/sqrt(N) with x from 0 to 1.
var feedback = kindOf("x, x/N or x/sqrt(N), x 0 to 1", alone(parseFeedback))

// feedbackForms are the endings of a feedback value.
var feedbackForms = map[rule.Per]string{rule.PerSqrt: "/sqrt(N)", rule.PerN: "/N", rule.PerOne: ""}

func parseFeedback(text string) (rule.Feedback, error) {
	packed := strings.ToLower(strings.Join(strings.Fields(text), ""))
	number, _, _ := strings.Cut(packed, "/")
	x, err := strconv.ParseFloat(number, 64)
	for per, ending := range feedbackForms {
		if err == nil && x >= 0 && x <= 1 && packed[len(number):] == strings.ToLower(ending) {
			return rule.Feedback{Amount: x, Per: per}, nil
		}
	}
	return rule.Feedback{}, errors.New("must be x, x/N or x/sqrt(N) with x from 0 to 1, such as 1/N or 0.25")
}

// choice is one of several words. The value is the word's index.
func choice[V ~uint8](words ...string) kind {
	parse := func(text string) (V, error) {
		i, err := wordIndex(words, text)
		return V(i), err
	}
	return kindOf(orList(words), alone(parse))
}

// oneOf is one of several words, which is the value itself.
func oneOf(words ...string) kind {
	parse := func(text string) (string, error) {
		i, err := wordIndex(words, text)
		return words[i], err
	}
	return kindOf(orList(words), alone(parse))
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
var flag = kindOf(formFlag, alone(parseFlag))

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

// text is a string.
var text = kindOf("text", alone(func(value string) (string, error) { return value, nil }))

// path is the name of a file, in which ${NAME} is expanded.
var path = kindOf("path", func(value string, r *reader) (string, error) { return r.expand(value), nil })

// store is the address of the store of the cluster.
var store = kindOf("redis://[user:password@]host:port/db", alone(parseStore))

func parseStore(text string) (*redisurl.Address, error) {
	a, err := redisurl.Parse(text)
	return &a, err
}
