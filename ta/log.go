package ta

// This file logs the result of each recipient to the system's log.

import (
	"fmt"
	"strings"
	"time"

	"zsched/internal/logs"
)

// SyslogStyle is the format of the line that an agent writes to the system's
// log for each recipient.
type SyslogStyle uint8

// The styles; the letters are those of SYSLOGFLG (zmailer.conf(5)).
const (
	SyslogOff    SyslogStyle = iota
	SyslogCommas             // T: ", " between the parts
	SyslogTabs               // t: TAB between the parts
)

// ParseSyslogStyle reads SYSLOGFLG: the first T or t in it decides. Without
// either there are no lines; a SYSLOGFLG that is not set means T.
func ParseSyslogStyle(flags string, set bool) SyslogStyle {
	if !set {
		return SyslogCommas
	}
	for _, c := range flags {
		switch c {
		case 'T':
			return SyslogCommas
		case 't':
			return SyslogTabs
		}
	}
	return SyslogOff
}

// logged is the content of the line for one recipient:
//
//	S157AbTCLWiT: to=<bob>, delay=00:01:02, xdelay=00:00:01, mailer=smtp,
//	  relay=mx.example.net ([192.0.2.1]), stat=ok2 250 taken
type logged struct {
	spoolID, user, channel string
	delay                  time.Duration // since the message arrived
	xdelay                 time.Duration // of this attempt
	relay, ip              string        // host that was talked to and its address, or ""
	status                 Status
	text                   string // only its last line is logged
}

// line returns the text of the line, without a newline. Its parts are cut to the
// lengths that log parsers expect, and hold no control characters.
func (l logged) line(style SyslogStyle) string {
	between, last, maxText := ", ", " ", 200
	if style == SyslogTabs {
		between, last = "\t", "\t"
	}
	parts := []string{
		l.spoolID + ":" + last + "to=<" + logWord(l.user, 200) + ">",
		"delay=" + formatHMS(l.delay), "xdelay=" + formatHMS(l.xdelay), "mailer=" + logWord(l.channel, 80),
	}
	if l.relay != "" {
		maxText = 400
		relay := "relay=" + logWord(l.relay, 200)
		if l.ip != "" {
			relay += " ([" + logWord(l.ip, 80) + "])"
		}
		parts = append(parts, relay)
	}
	text := strings.TrimRight(l.text, "\r\n")
	text = text[strings.LastIndexAny(text, "\r\n")+1:]
	parts = append(parts, "stat="+l.status.String()+last+logWord(text, maxText))
	return strings.Join(parts, between)
}

// formatHMS returns a time span as hours, minutes and seconds.
func formatHMS(d time.Duration) string {
	s := max(int64(d/time.Second), 0)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

// logWord cuts s to max bytes and replaces its control characters with spaces.
func logWord(s string, max int) string {
	if len(s) > max {
		s = s[:max]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// Syslog writes a line for each recipient to the system's log, facility mail.
// It never blocks: lines that syslogd does not take are dropped and counted. It
// is for Server.Syslog; a nil Syslog logs nothing.
type Syslog struct {
	style SyslogStyle
	w     *logs.Syslog
}

// OpenSyslog opens the system's log with the agent's name as the tag. It returns
// nil for SyslogOff.
func OpenSyslog(agent string, style SyslogStyle) *Syslog {
	return openSyslog(style, logs.SyslogOptions{Tag: agent})
}

func openSyslog(style SyslogStyle, o logs.SyslogOptions) *Syslog {
	if style == SyslogOff {
		return nil
	}
	return &Syslog{style, logs.OpenSyslog(o)}
}

// Close writes the waiting lines, or gives up after a second.
func (s *Syslog) Close() {
	if s != nil {
		s.w.Close()
	}
}

// log writes the line for a report.
func (s *Syslog) log(r *Recipient, res Result, report Report) {
	if s == nil {
		return
	}
	m, now := r.message, time.Now()
	if res.Began.IsZero() {
		res.Began = m.openedAt
	}
	line := logged{
		spoolID: m.SpoolID(), user: r.User, channel: r.Channel,
		delay: now.Sub(m.ModifiedAt), xdelay: now.Sub(res.Began), status: report.Status, text: report.Text,
	}
	line.relay, line.ip = cutRemote(res.Fields.Remote)
	s.w.Info(line.line(s.style))
}

// cutRemote splits "dns; mx.example.net (192.0.2.1)", whose type and address
// may be missing.
func cutRemote(remote string) (host, ip string) {
	if _, after, ok := strings.Cut(remote, ";"); ok {
		remote = after
	}
	host = strings.TrimSpace(remote)
	if rest, ok := strings.CutSuffix(host, ")"); ok {
		if at := strings.LastIndex(rest, " ("); at >= 0 {
			return strings.TrimRight(rest[:at], " "), strings.Trim(rest[at+2:], "[]")
		}
	}
	return host, ""
}
