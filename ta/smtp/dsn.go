// This file holds the DSN parameters RET, ENVID, NOTIFY and ORCPT (RFC 3461), and
// BY of DELIVERBY (RFC 2852).

package smtp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// dsnOfMail returns the DSN parameters of MAIL, with a blank before each.
func (e *envelope) dsnOfMail() (parameters string) {
	if ret := strings.ToUpper(e.ret); ret == "FULL" || ret == "HDRS" {
		parameters += " RET=" + ret
	}
	if validParameter(e.id) {
		parameters += " ENVID=" + e.id
	}
	return parameters
}

// dsnOfRcpt returns the DSN parameters of RCPT, with a blank before each.
func dsnOfRcpt(r *ta.Recipient) (parameters string) {
	if _, given := ctlfile.DSNWord(r.DSN, "NOTIFY"); given {
		if notify := notifyParameter(r.Notify); notify != "" {
			parameters += " NOTIFY=" + notify
		}
	}
	if original, _ := ctlfile.DSNWord(r.DSN, "ORCPT"); validParameter(original) && strings.Contains(original, ";") {
		parameters += " ORCPT=" + original
	}
	return parameters
}

// notifyParameter returns the value of NOTIFY in the words of RFC 3461. NEVER
// excludes all others.
func notifyParameter(n ctlfile.Notify) string {
	if n&ctlfile.NotifyNever != 0 {
		return "NEVER"
	}
	return (n & (ctlfile.NotifySuccess | ctlfile.NotifyFailure | ctlfile.NotifyDelay)).String()
}

// validParameter reports whether a value is valid in a command.
func validParameter(s string) bool {
	return s != "" && len(s) <= 500 &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// deadline is a request to deliver within a given time.
type deadline struct {
	left   int64  // seconds; negative when it is past
	mode   byte   // R: then return the message; N: then notify the sender and go on
	suffix string // the mode, and T if the sender wants to be notified of relays
}

// parseBy reads the value of BY. The time counts from the arrival of the message.
func parseBy(value string, age time.Duration) (d deadline, ok bool) {
	seconds, mode, _ := strings.Cut(value, ";")
	n, err := strconv.ParseInt(seconds, 10, 64)
	mode = strings.ToUpper(mode)
	if err != nil || !slices.Contains([]string{"N", "NT", "R", "RT"}, mode) {
		return deadline{}, false
	}
	return deadline{left: n - int64(age/time.Second), mode: mode[0], suffix: mode}, true
}

// byParameter returns the value of BY to pass on, or the reason why the message
// must not be sent.
func (e *envelope) byParameter(ext extensions, age time.Duration) (by string, refused *failure) {
	d, ok := parseBy(e.by, age)
	if !ok {
		return "", nil
	}
	returned := func(code, text string) *failure {
		return &failure{permanent: true, code: code, diagnostic: "smtp; 554 (" + text + ")", text: text}
	}
	switch {
	case d.mode == 'R' && d.left <= 0:
		return "", returned("5.4.7", "the time for delivery that the sender set is over")
	case d.mode == 'R' && !ext.deliverBy:
		return "", returned("5.3.3", "the sender set a time for delivery, but the next host does not support that")
	case d.mode == 'R' && d.left < ext.minBy:
		return "", returned("5.4.7", fmt.Sprintf("the sender wants delivery within %d seconds, but the next host permits no less than %d", d.left, ext.minBy))
	}
	return fmt.Sprintf("%d;%s", d.left, d.suffix), nil
}
