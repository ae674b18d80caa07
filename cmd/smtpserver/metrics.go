package main

// The metrics that smtpserver(8) lists, "METRICS".

import (
	"maps"
	"slices"

	"zsched/internal/metrics"
	"zsched/smtpserver"
)

func numbers(server *smtpserver.Server) metrics.Numbers {
	return func(to metrics.Sender) {
		c := server.Counts()
		to.Version("smtpserver")
		to.YesNo("smtpserver_accepting", "Whether mail can be accepted; /healthz says why not.", server.Unhealthy() == "")
		to.Send("smtpserver_sessions", "Sessions now.", float64(c.Open))
		to.Send("smtpserver_sessions_total", "Sessions that have begun.", float64(c.Sessions))
		to.Send("smtpserver_tls_sessions_total", "TLS handshakes that have succeeded.", float64(c.TLS))
		to.Send("smtpserver_logins_total", "Passwords given with AUTH.", float64(c.Logins))
		to.Send("smtpserver_logins_refused_total", "Passwords that were refused.", float64(c.LoginsRefused))
		to.Send("smtpserver_messages_total", "Messages accepted.", float64(c.Messages))
		to.Send("smtpserver_recipients_total", "Recipients of accepted messages.", float64(c.Recipients))
		to.Send("smtpserver_bytes_total", "Bytes of accepted messages.", float64(c.Bytes))
		to.Send("smtpserver_commit_seconds_total", "Time for which the accepted messages have waited for the disk.", c.CommitTime.Seconds())
		for _, reason := range slices.Sorted(maps.Keys(c.Refused)) {
			to.Send("smtpserver_refused_total", "Replies of class 4 and 5, by reason.", float64(c.Refused[reason]), "reason", reason)
		}
		to.Send("smtpserver_router_files", "Files in router/, up to twenty times router-max.", float64(c.Submissions))
		if !c.CertificateEnds.IsZero() {
			to.Time("smtpserver_certificate_end_seconds", "When the certificate ends, in seconds since 1970; 0 if it cannot be read.", c.CertificateEnds)
		}
	}
}
