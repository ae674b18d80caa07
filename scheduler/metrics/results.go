package metrics

// Results: what agents report, by class and enhanced status code.

import (
	"regexp"
	"strings"

	"zsched/ta"
)

// What becomes of a recipient.
const (
	delivered = "delivered"
	deferred  = "deferred"
	failed    = "failed"
	expired   = "expired"
)

// resultOf returns what a report says about its recipient.
func resultOf(status ta.Status) string {
	switch status {
	case ta.OK, ta.OK2, ta.OK3:
		return delivered
	case ta.Error, ta.Error2:
		return failed
	}
	return deferred
}

// resultOfState is resultOf for the State of a scheduler.Account.
func resultOfState(state string) string {
	switch state {
	case "ok", "ok2", "ok3":
		return delivered
	case "expire":
		return expired
	}
	return failed
}

// registered matches the enhanced status codes that RFC 3463 and the registry of IANA have
// room for: a few hundred, so that a server that invents codes cannot fill the memory of
// the program that scrapes.
var registered = regexp.MustCompile(`^[245]\.[0-7]\.([0-9]|[12][0-9]|30)$`)

// codeLabel returns the label for a code, which a comment may follow.
func codeLabel(code string) string {
	code, _, _ = strings.Cut(code, " ")
	switch {
	case code == "":
		return "none"
	case registered.MatchString(code):
		return code
	}
	return "other"
}
