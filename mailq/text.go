package mailq

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// Digest is what AUTH sends for a password: the MD5 sum, in lower case
// hexadecimal, of the challenge and the password behind it. The challenge is
// the whole second line of the server, "220 " included, without its LF.
func Digest(challenge, password string) string {
	sum := md5.Sum([]byte(challenge + password))
	return hex.EncodeToString(sum[:])
}

// SayTime is a span in days, hours, minutes and seconds, without those that
// are zero. Beside days and hours both, what is smaller is left out: 59s,
// 1h1m1s, 1d1m1s, 1d1h. Parts of a second do not count.
func SayTime(d time.Duration) string {
	s := int64(d / time.Second)
	if s == 0 {
		return "0s"
	}
	var b []byte
	if s < 0 {
		b = append(b, '-')
		s = -s
	}
	large := 0
	for _, u := range [...]struct {
		seconds int64
		letter  byte
		small   bool
	}{{86400, 'd', false}, {3600, 'h', false}, {60, 'm', true}, {1, 's', true}} {
		n := s / u.seconds
		s %= u.seconds
		if n == 0 || u.small && large == 2 {
			continue
		}
		if !u.small {
			large++
		}
		b = append(strconv.AppendInt(b, n, 10), u.letter)
	}
	return string(b)
}

// oneLine makes text safe inside a line: a line end becomes CR, the mark
// between the lines of a diagnostic, and NUL a blank.
func OneLine(s string) string {
	if !strings.ContainsAny(s, "\n\x00") {
		return s
	}
	return strings.NewReplacer("\r\n", "\r", "\n", "\r", "\x00", " ").Replace(s)
}

// field makes text safe between TABs: oneLine, and TAB becomes a blank.
func Field(s string) string {
	return strings.ReplaceAll(OneLine(s), "\t", " ")
}

// oneReply makes text safe in a reply, where a CR would be dropped by some.
func OneReply(s string) string {
	return strings.ReplaceAll(Field(s), "\r", " ")
}

// plural is a count and its noun.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
