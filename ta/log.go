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

// Logged is the content of the line for one recipient:
//
//	S157AbTCLWiT: to=<bob>, delay=00:01:02, xdelay=00:00:01, mailer=smtp,
//	  relay=mx.example.net ([192.0.2.1]), stat=ok2 250 taken
type Logged struct {
	SpoolID   string
	User      string
	Channel   string
	Delay     time.Duration // since the message arrived
	XDelay    time.Duration // of this attempt
	Relay, IP string        // host that was talked to and its address, or ""
	Status    Status
	Text      string // only its last line is logged
}

// Line returns the text of the line, without a newline. Its parts are cut to the
// lengths that log parsers expect, and hold no control characters.
func (l Logged) Line(style SyslogStyle) string {
	between, last, maxText := ", ", " ", 200
	if style == SyslogTabs {
		between, last = "\t", "\t"
	}
	var b strings.Builder
	b.WriteString(l.SpoolID + ":")
	if style == SyslogTabs {
		b.WriteString("\t")
	} else {
		b.WriteString(" ")
	}
	fmt.Fprintf(&b, "to=<%s>%sdelay=%s%sxdelay=%s%smailer=%s", logWord(l.User, 200), between,
		formatHMS(l.Delay), between, formatHMS(l.XDelay), between, logWord(l.Channel, 80))
	if l.Relay != "" {
		maxText = 400
		b.WriteString(between + "relay=" + logWord(l.Relay, 200))
		if l.IP != "" {
			b.WriteString(" ([" + logWord(l.IP, 80) + "])")
		}
	}
	text := strings.TrimRight(l.Text, "\r\n")
	text = text[strings.LastIndexAny(text, "\r\n")+1:]
	b.WriteString(between + "stat=" + l.Status.String() + last + logWord(text, maxText))
	return b.String()
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
	line := Logged{
		SpoolID: m.SpoolID(), User: r.User, Channel: r.Channel,
		Delay: now.Sub(m.ModifiedAt), XDelay: now.Sub(res.Began),
		Status: report.Status, Text: report.Text,
	}
	line.Relay, line.IP = cutRemote(res.Fields.Remote)
	s.w.Info(line.Line(s.style))
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
