package ctlfile

import (
	"strconv"
	"time"
)

// idAlphabet has '0' twice, at 26 and 62, and has had it for so long that
// identities are compared with it.
const idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123abcdefghijklmnopqrstuvwxyz4567890-"

// SpoolID is the message's identity in logs and notices: S, the number of its
// control file, and the modification time of its message file, as eight
// characters for the second and five more for the nanoseconds if there are
// any (scheduler(8), "Spoolid").
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

// Number is the decimal number at the front of a base name: the key by which
// a message is known. It is not ok if there is none, or zero, or one that
// needs more than 64 bits.
func Number(name string) (n uint64, ok bool) {
	end := 0
	for end < len(name) && isDigit(name[end]) {
		end++
	}
	n, err := strconv.ParseUint(name[:end], 10, 64)
	return n, err == nil && n > 0
}

// HashDir is the directory prefix of message n below transport/ and queue/:
// "" without levels, "I/" with one, "B/I/" with two, which is the most.
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
