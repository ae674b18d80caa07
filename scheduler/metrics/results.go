package metrics

// Results: what agents report, by class and enhanced status code.

import (
	"fmt"
	"strings"

	"zsched/ta"
)

// result is a class of reports with an enhanced status code. There are fewer
// than a thousand of them, so that a server that invents codes cannot fill the
// memory of the program that scrapes.
type result struct {
	class outcome
	code  statusCode
}

// outcome is what becomes of a recipient.
type outcome uint8

const (
	delivered outcome = iota
	deferred
	failed
	expired
)

var outcomes = [...]string{"delivered", "deferred", "failed", "expired"}

func (o outcome) String() string { return outcomes[o] }

// outcomeOf returns what a report says about its recipient.
func outcomeOf(status ta.Status) outcome {
	switch status {
	case ta.OK, ta.OK2, ta.OK3:
		return delivered
	case ta.Error, ta.Error2:
		return failed
	}
	return deferred
}

// outcomeOfState is outcomeOf for the State of a scheduler.Account.
func outcomeOfState(state string) outcome {
	switch state {
	case "ok", "ok2", "ok3":
		return delivered
	case "expire":
		return expired
	}
	return failed
}

// statusCode is an enhanced status code, as class, subject and detail. The zero
// value says that a report has none.
type statusCode [3]uint8

// otherCode stands for all codes that are not registered.
var otherCode = statusCode{0, 1}

// maxDetail has the highest detail that is registered for each subject (RFC 3463
// and the registry of IANA).
var maxDetail = [...]uint8{0, 10, 4, 6, 7, 6, 10, 30}

// parseStatusCode reads a code, which a comment may follow.
func parseStatusCode(text string) statusCode {
	text, _, _ = strings.Cut(text, " ")
	if text == "" {
		return statusCode{}
	}
	var code statusCode
	for i := range code {
		part, rest, more := strings.Cut(text, ".")
		n, ok := shortNumber(part)
		if !ok || more != (i < 2) {
			return otherCode
		}
		code[i], text = n, rest
	}
	if c := code[0]; c != 2 && c != 4 && c != 5 || int(code[1]) >= len(maxDetail) || code[2] > maxDetail[code[1]] {
		return otherCode
	}
	return code
}

// shortNumber reads a number of one or two digits.
func shortNumber(text string) (n uint8, ok bool) {
	if len(text) < 1 || len(text) > 2 {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = 10*n + text[i] - '0'
	}
	return n, true
}

// String returns the code as a label.
func (c statusCode) String() string {
	switch c {
	case statusCode{}:
		return "none"
	case otherCode:
		return "other"
	}
	return fmt.Sprintf("%d.%d.%d", c[0], c[1], c[2])
}
