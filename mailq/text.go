package mailq

import (
	"crypto/md5"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"zsched/internal/text"
)

// This file formats password digests, spans, counts and diagnostics for the protocol
// and its reports.

// Digest returns what AUTH sends for a password: the MD5 sum of the challenge
// followed by the password, in lower case hexadecimal. The challenge is the
// server's whole second line, "220 " included, without its LF.
func Digest(challenge, password string) string {
	sum := md5.Sum([]byte(challenge + password))
	return hex.EncodeToString(sum[:])
}

// FormatAge writes how long ago a time was, in at most two units that follow each other: 5s,
// 22m40s, 3h5m, 3d, 12d3h. For a time in the future, by a clock that was set, it is 0s.
func FormatAge(now, at time.Time) string {
	d := max(0, now.Sub(at))
	switch {
	case d >= 24*time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	}
	return FormatSpan(d)
}

// FormatSpan writes a span as ZMailer does, in days, hours, minutes and seconds: 59s, 1h1m1s,
// 1d1m1s, 1d1h. A unit that is zero is left out. Minutes and seconds are left
// out if there are both days and hours. Fractions of a second are dropped.
func FormatSpan(d time.Duration) string {
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

// OneLine makes text safe inside a line. A line end becomes CR, which separates
// the lines of a diagnostic, and NUL becomes a space.
func OneLine(s string) string {
	if !strings.ContainsAny(s, "\n\x00") {
		return s
	}
	return strings.NewReplacer("\r\n", "\r", "\n", "\r", "\x00", " ").Replace(s)
}

// Field is OneLine for text between TABs: a TAB becomes a space.
func Field(s string) string {
	return strings.ReplaceAll(OneLine(s), "\t", " ")
}

// OneReply is Field for a reply of one line: CR becomes a space, because some
// readers drop it.
func OneReply(s string) string {
	return strings.ReplaceAll(Field(s), "\r", " ")
}

// LastReply returns the last reply in a diagnostic, in one line: what lists show of a
// reason, what SHOW COUNT reason groups, and what patterns for reasons must match.
func LastReply(reason string) string { return Field(text.LastReply(reason)) }
