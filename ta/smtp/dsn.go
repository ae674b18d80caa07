// This file holds the DSN parameters RET, ENVID, NOTIFY and ORCPT (RFC 3461).

package smtp

import (
	"strings"

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
