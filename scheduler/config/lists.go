package config

// Values that are lists: retries, times and the words of a command.

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
	"zsched/scheduler"
)

// factors is a list of whole numbers.
type factors struct {
	field     func(*scheduler.Params) *[]int
	low, high int
	max       int // numbers in the list
}

func (k factors) String() string {
	return fmt.Sprintf("up to %d numbers, %d to %d", k.max, k.low, k.high)
}

func (k factors) read(text string, _ *reader) (func(*scheduler.Params), error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > k.max {
		return nil, fmt.Errorf("must be 1 to %d numbers with blanks between them", k.max)
	}
	list := make([]int, len(words))
	for i, word := range words {
		n, err := parseCount(word, k.low, k.high, false)
		if err != nil {
			return nil, fmt.Errorf("each number %w; %q is not", err, word)
		}
		list[i] = n
	}
	return func(p *scheduler.Params) { *k.field(p) = list }, nil
}

func (k factors) show(p *scheduler.Params) string {
	words := make([]string, len(*k.field(p)))
	for i, n := range *k.field(p) {
		words[i] = strconv.Itoa(n)
	}
	return quoteList(words)
}

// times is a list of intervals.
type times struct {
	field     func(*scheduler.Params) *[]time.Duration
	low, high time.Duration
	max       int // times that are used
}

func (k times) String() string {
	return fmt.Sprintf("up to %d times, %s to %s", k.max, units.FormatInterval(k.low), units.FormatInterval(k.high))
}

func (k times) read(text string, r *reader) (func(*scheduler.Params), error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, fmt.Errorf("must be 1 to %d times with blanks between them", k.max)
	}
	list := make([]time.Duration, len(words))
	for i, word := range words {
		d, err := units.ParseInterval(word)
		if err == nil && (d < k.low || d > k.high) {
			err = fmt.Errorf("must be from %s to %s", units.FormatInterval(k.low), units.FormatInterval(k.high))
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		list[i] = d
	}
	if len(list) > k.max {
		r.warn("only the first %d times are used", k.max)
		list = list[:k.max]
	}
	return func(p *scheduler.Params) { *k.field(p) = list }, nil
}

func (k times) show(p *scheduler.Params) string {
	words := make([]string, len(*k.field(p)))
	for i, d := range *k.field(p) {
		words[i] = units.FormatInterval(d)
	}
	return quoteList(words)
}

// quoteList writes words as one quoted value.
func quoteList(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return `"` + strings.Join(words, " ") + `"`
}

// words is a command line: words with blanks between them and no quotes. Words
// that contain "=" before the program go into the agent's environment.
type words struct {
	field func(*scheduler.Params) *[]string
}

func (k words) String() string { return "words" }

func (k words) read(text string, r *reader) (func(*scheduler.Params), error) {
	list := strings.Fields(text)
	if programOf(list) == "" {
		return nil, errors.New("the command names no program")
	}
	_, unknown := zenv.Expand(text, r.commandName)
	for _, name := range unknown {
		r.warn("${%s} has no value; the agent gets nothing in its place%s", name, suggest(name, commandNames))
	}
	for _, name := range plainNames(text) {
		if _, ok := r.commandName(name); !ok {
			r.warn("$%s has no value; the agent gets it as it is%s", name, suggest(name, commandNames))
		}
	}
	return func(p *scheduler.Params) { *k.field(p) = list }, nil
}

func (k words) show(p *scheduler.Params) string { return quoteList(*k.field(p)) }

// programOf returns the program among the words of a command.
func programOf(words []string) string {
	for _, word := range words {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

// plainName matches a name without braces.
var plainName = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)

// plainNames returns the names without braces in a command.
func plainNames(text string) []string {
	var names []string
	for _, match := range plainName.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// commandNames are the names in a command whose values come from the ring, not
// from zmailer.conf.
var commandNames = []string{"channel", "host", "sessions"}

// commandName looks up a name in a command. The values of commandNames are not
// known yet.
func (r *reader) commandName(name string) (string, bool) {
	if slices.Contains(commandNames, name) {
		return "", true
	}
	value, set := r.system.Zenv.Lookup(name)
	return value, set || value != ""
}
