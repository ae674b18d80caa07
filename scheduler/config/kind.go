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
	"zsched/scheduler/limit"
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

// kinds are the kinds by the names that the tags of keywords and PARAMs give them. There the
// arguments follow: bounds, or words.
var kinds = map[string]func(args ...string) kind{
	"time":       span,
	"times":      times,
	"number":     count,
	"atleast":    atLeast,
	"numbers":    numbers,
	"fraction":   fraction,
	"choice":     choice,
	"word":       oneOf,
	"user":       account("user"),
	"group":      account("group"),
	"flag":       flag.plain,
	"feedback":   feedback.plain,
	"rate":       rate.plain,
	"words":      words.plain,
	"text":       text.plain,
	"path":       path.plain,
	"socket":     socket,
	"sockets":    sockets.plain,
	"unixsocket": unixSocket.plain,
	"store":      store.plain,
	"shares":     sharesFile.plain,
	"replies":    repliesFile.plain,
}

// plain is a kind without arguments.
func (k kind) plain(...string) kind { return k }

// kindNamed is the kind that a tag names.
func kindNamed(tag string) kind {
	words := strings.Fields(tag)
	of := kinds[words[0]]
	if of == nil {
		panic("config: there is no kind " + tag)
	}
	return of(words[1:]...)
}

// argument is a number or a time in a tag.
func argument[V any](parse func(string) (V, error), text string) V {
	value, err := parse(text)
	if err != nil {
		panic("config: a tag has " + text + ": " + err.Error())
	}
	return value
}

// span is a time between two bounds.
func span(bounds ...string) kind {
	low, high := argument(units.ParseInterval, bounds[0]), argument(units.ParseInterval, bounds[1])
	form := "time, " + units.FormatInterval(low) + " to " + units.FormatInterval(high)
	return kindOf(form, func(text string, r *reader) (time.Duration, error) {
		d, err := parseSpan(text, low, high)
		if err == nil && d > 0 && strings.Trim(text, "0123456789") == "" {
			r.warn("%s has no unit, so it counts seconds, as in ZMailer; write %s if that is meant", text, units.FormatInterval(d))
		}
		return d, err
	})
}

func parseSpan(text string, low, high time.Duration) (time.Duration, error) {
	d, err := units.ParseInterval(text)
	if err == nil && (d < low || d > high) {
		err = fmt.Errorf("must be from %s to %s", units.FormatInterval(low), units.FormatInterval(high))
	}
	return d, err
}

// zeroIs is a kind of times of which 0 stands for another value.
func zeroIs(k kind, text string) kind {
	parse, zero := k.parse, argument(units.ParseInterval, text)
	k.parse = func(text string, r *reader) (any, error) {
		value, err := parse(text, r)
		if value == time.Duration(0) {
			value = zero
		}
		return value, err
	}
	return k
}

// count is a whole number between two bounds.
func count(bounds ...string) kind {
	low, high := argument(strconv.Atoi, bounds[0]), argument(strconv.Atoi, bounds[1])
	parse := func(text string) (int, error) { return parseCount(text, low, high) }
	return kindOf(fmt.Sprintf("number, %d to %d", low, high), alone(parse))
}

// atLeast is a whole number. A value below the lower bound means that bound, as in ZMailer.
func atLeast(bounds ...string) kind {
	k := count(bounds...)
	parse, low := k.parse, argument(strconv.Atoi, bounds[0])
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

// fraction is a number with a fraction, between two bounds.
func fraction(bounds ...string) kind {
	number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	low, high := argument(number, bounds[0]), argument(number, bounds[1])
	parse := func(text string) (float64, error) {
		x, err := number(text)
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
var feedbackForms = map[limit.Per]string{limit.PerSqrt: "/sqrt(N)", limit.PerN: "/N", limit.PerOne: ""}

func parseFeedback(text string) (limit.Feedback, error) {
	packed := strings.ToLower(strings.Join(strings.Fields(text), ""))
	number, _, _ := strings.Cut(packed, "/")
	x, err := strconv.ParseFloat(number, 64)
	for per, ending := range feedbackForms {
		if err == nil && x >= 0 && x <= 1 && packed[len(number):] == strings.ToLower(ending) {
			return limit.Feedback{Amount: x, Per: per}, nil
		}
	}
	return limit.Feedback{}, errors.New("must be x, x/N or x/sqrt(N) with x from 0 to 1, such as 1/N or 0.25")
}

// choice is one of several words. The value is the word's index.
func choice(words ...string) kind {
	parse := func(text string) (uint8, error) {
		i, err := wordIndex(words, text)
		return uint8(i), err
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
var flag = kindOf(formFlag, alone(units.ParseYesNo))

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
