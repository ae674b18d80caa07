package units

// Sizes in bytes: a number that may end with k, M or G, in either case. 10M is 10485760
// bytes.

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a size. The error quotes the text.
func ParseSize(text string) (int64, error) {
	digits, unit := text, int64(1)
	if text != "" {
		if i := strings.IndexByte("kmg", text[len(text)-1]|0x20); i >= 0 {
			digits, unit = text[:len(text)-1], 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a size such as 500k or 10M", text)
	}
	return int64(n) * unit, nil
}

// SizeFlag returns a function that reads the value of an option into a variable. A value below
// least is an error.
func SizeFlag(bytes *int64, least int64) func(text string) error {
	return func(text string) error {
		n, err := ParseSize(text)
		if err == nil && n < least {
			err = fmt.Errorf("%q is less than %d", text, least)
		}
		if err == nil {
			*bytes = n
		}
		return err
	}
}

// Plural writes a count and its noun: "1 entry", "2 entries".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
