package config

// Values that are lists: retries, times, rates and the words of a command.

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/internal/units"
	"zsched/internal/zenv"
	"zsched/scheduler/limit"
)

// numbers is a list of whole numbers between two bounds. The third argument is how many there may be.
func numbers(args ...string) kind {
	low, high, most := argument(strconv.Atoi, args[0]), argument(strconv.Atoi, args[1]), argument(strconv.Atoi, args[2])
	parse := func(text string) ([]int, error) {
		words := strings.Fields(text)
		if len(words) > most {
			return nil, fmt.Errorf("must be 1 to %d numbers with blanks between them", most)
		}
		return parseList(words, func(word string) (int, error) { return parseCount(word, low, high) })
	}
	return kindOf(fmt.Sprintf("up to %d numbers, %d to %d", most, low, high), alone(parse))
}

// times is a list of intervals between two bounds. The third argument is how many of them are used.
func times(args ...string) kind {
	low, high := argument(units.ParseInterval, args[0]), argument(units.ParseInterval, args[1])
	most := argument(strconv.Atoi, args[2])
	parse := func(text string, r *reader) ([]time.Duration, error) {
		words := strings.Fields(text)
		list, err := parseList(words, func(word string) (time.Duration, error) { return parseSpan(word, low, high) })
		if len(list) > most {
			r.warn("only the first %d times are used", most)
			list = list[:most]
		}
		return list, err
	}
	return kindOf(fmt.Sprintf("up to %d times, %s to %s", most, units.FormatInterval(low), units.FormatInterval(high)), parse)
}

// parseList parses each of several words.
func parseList[V any](words []string, parse func(string) (V, error)) ([]V, error) {
	list := make([]V, len(words))
	for i, word := range words {
		var err error
		if list[i], err = parse(word); err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
	}
	return list, nil
}

// Bounds of a rate.
const (
	maxRecipients = 1000000000
)

// rate is such as "100/1m". "0" sets no limit.
var rate = kindOf("N/time",
	func(text string, _ *reader) (limit.Rate, error) {
		if text == "0" {
			return limit.Rate{}, nil
		}
		return parseRate(text)
	})

// parseRate reads one rate, such as 100/1m.
func parseRate(text string) (limit.Rate, error) {
	number, span, _ := strings.Cut(text, "/")
	n, err := parseCount(number, 1, maxRecipients)
	if err != nil {
		return limit.Rate{}, fmt.Errorf("%q: the number of recipients %w", text, err)
	}
	d, err := parseSpan(span, time.Second, year)
	if err != nil {
		return limit.Rate{}, fmt.Errorf("%q: the time: %w", text, err)
	}
	return limit.Rate{Recipients: n, Span: d}, nil
}

// words is a command line: words with blanks between them and no quotes. Words
// that contain "=" before the program go into the agent's environment.
var words = kindOf("words", parseCommand)

func parseCommand(text string, r *reader) ([]string, error) {
	list := strings.Fields(text)
	if programOf(list) == "" {
		return nil, errors.New("the command names no program")
	}
	_, unknown := zenv.Expand(text, r.commandName)
	for _, name := range unknown {
		r.warn("${%s} has no value; the agent gets nothing in its place", name)
	}
	for _, match := range plainName.FindAllStringSubmatch(text, -1) {
		if _, ok := r.commandName(match[1]); !ok {
			r.warn("%s has no value; the agent gets it as it is", match[0])
		}
	}
	return list, nil
}

// programOf returns the program among the words of a command.
func programOf(words []string) string {
	i := slices.IndexFunc(words, func(word string) bool { return !strings.Contains(word, "=") })
	if i < 0 {
		return ""
	}
	return words[i]
}

// plainName matches a name without braces in a command.
var plainName = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// commandName looks up a name in a command. The values of some come from the ring, and
// are not known yet.
func (r *reader) commandName(name string) (string, bool) {
	switch name {
	case "channel", "host", "sessions":
		return "", true
	}
	value, set := r.system.Zenv.Lookup(name)
	return value, set || value != ""
}
