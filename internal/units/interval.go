// Package units reads and writes spans of time and sizes as options, the configuration,
// the query protocol and the conditions of hold(8) write them. A span is a sum of numbers
// with units: 1h5m20s is 3920 seconds (scheduler.cf(5), Intervals). Plural writes a count and its noun.
package units

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// MaxInterval is the longest interval that ParseInterval accepts, 100 years. It is a third of
// what a time.Duration can hold, so that the sum of two intervals cannot
// overflow.
const MaxInterval = 36500 * day

var letters = [...]struct {
	letter byte
	span   time.Duration
}{{'w', 7 * day}, {'d', day}, {'h', time.Hour}, {'m', time.Minute}, {'s', time.Second}}

var errInterval = errors.New("an interval consists of numbers with the units w, d, h, m and s, such as 1h30m")

// ParseInterval reads an interval. The units are w, d, h, m and s; a last number
// without a unit counts seconds; one blank may separate two components.
// The error does not quote the text: the caller does.
func ParseInterval(s string) (time.Duration, error) {
	if s == "" {
		return 0, errInterval
	}
	var sum time.Duration
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		unit, number, after := time.Second, rest[:digits], rest[digits:]
		if after != "" {
			unit, after = unitOf(after[0]), after[1:]
		}
		if digits == 0 || unit == 0 {
			return 0, errInterval
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > int64(MaxInterval/unit) || sum+time.Duration(n)*unit > MaxInterval {
			return 0, fmt.Errorf("longer than %s", FormatInterval(MaxInterval))
		}
		sum += time.Duration(n) * unit
		// A blank at the end is not between two components.
		if len(after) > 1 && (after[0] == ' ' || after[0] == '\t') {
			after = after[1:]
		}
		rest = after
	}
	return sum, nil
}

// unitOf returns the span of a unit; 0: it is none.
func unitOf(letter byte) time.Duration {
	for _, u := range letters {
		if u.letter == letter {
			return u.span
		}
	}
	return 0
}

// FormatInterval writes d, in whole seconds, so that ParseInterval reads the same value. It uses
// no weeks, which older programs do not read.
func FormatInterval(d time.Duration) string {
	var b strings.Builder
	for _, u := range letters[1:] {
		if n := d / u.span; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10))
			b.WriteByte(u.letter)
			d -= n * u.span
		}
	}
	if b.Len() == 0 {
		return "0"
	}
	return b.String()
}

// ParseYesNo reads a setting that is on or off. It is on if it has no value. The error does not
// quote the text.
func ParseYesNo(text string) (bool, error) {
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

// Interval is a time.Duration as the value of an option: pflag.Value.
type Interval time.Duration

func (i *Interval) String() string { return FormatInterval(time.Duration(*i)) }

// Set reads an interval.
func (i *Interval) Set(text string) error {
	d, err := ParseInterval(text)
	if err == nil {
		*i = Interval(d)
	}
	return err
}

// Type is the word of a usage line.
func (*Interval) Type() string { return "time" }
