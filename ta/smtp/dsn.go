// This file holds the DSN parameters RET, ENVID, NOTIFY and ORCPT (RFC 3461), and
// BY of DELIVERBY (RFC 2852).

package smtp

import (
	"fmt"
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
	if ctlfile.DSNValue(e.id) {
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
	if original, _ := ctlfile.DSNWord(r.DSN, "ORCPT"); ctlfile.DSNValue(original) && strings.Contains(original, ";") {
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

// byParameter returns the value of BY to pass on, or the reason why the message
// must not be sent. The time counts from the arrival of the message.
func (e *envelope) byParameter(ext extensions, age time.Duration) (by string, refused *failure) {
	if !e.by.Given {
		return "", nil
	}
	left := int64(e.by.After/time.Second) - int64(age/time.Second)
	returned := func(code, text string) *failure {
		return &failure{permanent: true, code: code, diagnostic: "smtp; 554 (" + text + ")", text: text}
	}
	mode := "N"
	if e.by.Return {
		mode = "R"
		switch {
		case left <= 0:
			return "", returned("5.4.7", "the time for delivery that the sender set is over")
		case !ext.deliverBy:
			return "", returned("5.3.3", "the sender set a time for delivery, but the next host does not support that")
		case left < ext.minBy:
			return "", returned("5.4.7", fmt.Sprintf("the sender wants delivery within %d seconds, but the next host permits no less than %d", left, ext.minBy))
		}
	}
	if e.by.Trace {
		mode += "T"
	}
	return fmt.Sprintf("%d;%s", left, mode), nil
}
