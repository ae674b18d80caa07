package config

// Keywords and PARAMs of ZMailer and of earlier versions: which of ZMailer's are read and
// have no effect, and which of ours have been and are refused.

import "strings"

// gone are the keywords, PARAMs and actions of reply rules of version 0.9 that no longer exist, and
// what to use.
var gone = map[string]string{
	"job-timeout":          "agent-timeout ends an agent that reports on no further recipient",
	"slow":                 "rate sets the rate that is left",
	"ringrate":             "use rate for each thread, or channelrate",
	"paramcluster-lost":    "without the store, each limit is divided among the nodes; use maxthr and rate for what each node may do at most",
	"paramcluster-prefix":  "use the number of a database in PARAMcluster for each cluster",
	"paramring-reserve":    "a ring that has a free session needs no room in memory any more",
	"paramfence":           "start the scheduler with option -P after the other node was switched off",
	"paramevent-log-limit": "let logrotate bound the event log, as its example does",
	"paramxfer-listen":     "xferd listens at the address of this node in the table of nodes",
	"paramxfer-cert":       "the certificate lies beside the table of nodes, whose path it has with .crt",
	"paramxfer-key":        "the key lies beside the table of nodes, whose path it has with .key",
	"paramxfer-ca":         "the authorities lie beside the table of nodes, whose path they have with .ca",
	"paramxfer-channels":   "nodes that have a certificate may move all mail here",
	"paramxfer-programs":   "nodes that have a certificate may move all mail here",
}

// insteadOf returns the end of an error about an unknown name: what to use, if it is gone.
func insteadOf(name string) string {
	if instead := gone[strings.ToLower(name)]; instead != "" {
		return ", which is gone: " + instead
	}
	return ""
}

// ignored are the keywords and PARAMs of ZMailer and of version 0.9 that are read, whatever their
// value is, and have no effect; with what to say about it.
var ignored = map[string]string{
	"skew": "", "bychannel": "", "deliveryform": "", "expiryform": "", "sysnice": "", "syspriority": "", "PARAMmsgwriteasync": "",
	"PARAMactive-limit":    inMemory,
	"PARAMrecipient-limit": inMemory,
}

const inMemory = ": all mail is in memory, about 150 bytes for each destination of a message"

// isIgnored reports whether a word is one of those, and warns of it once.
func (r *reader) isIgnored(name string) bool {
	for known, why := range ignored {
		if strings.EqualFold(known, name) {
			r.warnOnce("%s has no effect%s", known, why)
			return true
		}
	}
	return false
}
