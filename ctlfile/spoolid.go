package ctlfile

// Spoolids and hash directories: the identity of a message in logs, and the directories
// of its files.

import (
	"strconv"
	"strings"
	"time"
)

// idAlphabet has '0' twice, at 26 and 62. It must stay so, because people
// compare our spoolids with those of older programs.
const idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123abcdefghijklmnopqrstuvwxyz4567890-"

// SpoolID returns the message's identity in logs and notices (scheduler(8),
// "Spoolid"): S, the number of its control file, and the modification time of
// its message file, in eight characters, with five more for the nanoseconds if
// they are not 0.
func SpoolID(n uint64, mtime time.Time) string {
	t := mtime.UTC()
	b := make([]byte, 0, 1+20+8+5)
	b = append(b, 'S')
	b = strconv.AppendUint(b, n, 10)
	year := t.Year()
	b = appendID(b, year>>12, year>>6, year,
		int(t.Month())-1, t.Day()-1, t.Hour(), t.Minute(), t.Second())
	if ns := t.Nanosecond(); ns != 0 {
		b = appendID(b, ns>>24, ns>>18, ns>>12, ns>>6, ns)
	}
	return string(b)
}

func appendID(b []byte, values ...int) []byte {
	for _, v := range values {
		b = append(b, idAlphabet[v&63])
	}
	return b
}

// Number returns the decimal number that a base name begins with. It identifies
// the message. ok is false if there is none, if it is zero, or if it needs more
// than 64 bits.
func Number(name string) (n uint64, ok bool) {
	end := 0
	for end < len(name) && isDigit(name[end]) {
		end++
	}
	n, err := strconv.ParseUint(name[:end], 10, 64)
	return n, err == nil && n > 0
}

// SpoolNumber returns the number of the message that has a spoolid. The number alone, as the
// router's files have it, counts as well.
func SpoolNumber(spoolID string) (n uint64, ok bool) {
	return Number(strings.TrimPrefix(spoolID, "S"))
}

// HashDir returns the path of message n's hash directory below transport/ and
// queue/: "" for no levels, "I/" for one, "B/I/" for two, which is the maximum.
func HashDir(n uint64, levels int) string {
	outer, inner := 'A'+byte(n/26%26), 'A'+byte(n%26)
	switch {
	case levels <= 0:
		return ""
	case levels == 1:
		return string([]byte{inner, '/'})
	}
	return string([]byte{outer, '/', inner, '/'})
}
