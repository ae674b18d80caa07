package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An interval is a sum of numbers with units: 1h5m20s is 3920 seconds. A last
// number without a unit counts seconds. One blank may stand between two
// components (scheduler.cf(5), Intervals).
type unit struct {
	letter byte
	span   time.Duration
}

const (
	day = 24 * time.Hour
	// century is longer than any interval here may be, and a third of what a
	// time.Duration can hold.
	century = 36500 * day
)

var units = [...]unit{{'d', day}, {'h', time.Hour}, {'m', time.Minute}, {'s', time.Second}}

func parseInterval(s string) (time.Duration, error) {
	if s == "" {
		return 0, fmt.Errorf("an interval is needed, such as 90s or 1h30m")
	}
	var sum time.Duration
	for rest := s; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 {
			return 0, noNumber(rest)
		}
		span := time.Second
		number, after := rest[:digits], rest[digits:]
		if after != "" {
			var ok bool
			if span, ok = unitOf(after[0]); !ok {
				return 0, fmt.Errorf("%s is not a unit; the units are d, h, m and s", quoteFirst(after))
			}
			after = after[1:]
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > int64(century/span) || sum+time.Duration(n)*span > century {
			return 0, fmt.Errorf("longer than %s", formatInterval(century))
		}
		sum += time.Duration(n) * span
		// A blank at the end is not between two components.
		if len(after) > 1 && (after[0] == ' ' || after[0] == '\t') {
			after = after[1:]
		}
		rest = after
	}
	return sum, nil
}

func noNumber(rest string) error {
	if _, ok := unitOf(rest[0]); ok {
		return fmt.Errorf("there is no number before %s", quoteFirst(rest))
	}
	return fmt.Errorf("an interval is numbers with units, such as 1h30m; %s does not belong there", quoteFirst(rest))
}

func unitOf(letter byte) (time.Duration, bool) {
	for _, u := range units {
		if u.letter == letter {
			return u.span, true
		}
	}
	return 0, false
}

// quoteFirst is the first character of s, in quotes.
func quoteFirst(s string) string {
	for _, r := range s {
		return strconv.Quote(string(r))
	}
	return `""`
}

// formatInterval writes whole seconds so that parseInterval reads the same.
func formatInterval(d time.Duration) string {
	var b strings.Builder
	for _, u := range units {
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
