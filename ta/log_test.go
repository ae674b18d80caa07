package ta

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/internal/logs"
)

func TestSyslogStyleIsTheFirstLetterThatAsksForOne(t *testing.T) {
	for _, c := range []struct {
		flags string
		set   bool
		want  SyslogStyle
	}{
		{"", false, SyslogCommas},
		{"", true, SyslogOff},
		{"RC", true, SyslogOff},
		{"RT", true, SyslogCommas},
		{"Rt", true, SyslogTabs},
		{"tT", true, SyslogTabs},
		{"Tt", true, SyslogCommas},
	} {
		if got := ParseSyslogStyle(c.flags, c.set); got != c.want {
			t.Errorf("SYSLOGFLG %q, set %v: style %d, want %d", c.flags, c.set, got, c.want)
		}
	}
}

func TestLoggedLine(t *testing.T) {
	l := logged{
		spoolID: "S157AbTCLWiT", user: "bob@example.net", channel: "smtp",
		delay: 27*time.Hour + 62*time.Second, xdelay: time.Second + time.Millisecond,
		status: Error2, text: "RCPT TO:<bob>\r550 5.1.1 no\tbob\r",
	}
	expect(t, l.line(SyslogCommas), "S157AbTCLWiT: to=<bob@example.net>, delay=27:01:02, xdelay=00:00:01, "+
		"mailer=smtp, stat=error2 550 5.1.1 no bob")
	l.relay, l.ip = "mx.example.net", "192.0.2.1"
	expect(t, l.line(SyslogCommas), "S157AbTCLWiT: to=<bob@example.net>, delay=27:01:02, xdelay=00:00:01, "+
		"mailer=smtp, relay=mx.example.net ([192.0.2.1]), stat=error2 550 5.1.1 no bob")
	expect(t, l.line(SyslogTabs), "S157AbTCLWiT:\tto=<bob@example.net>\tdelay=27:01:02\txdelay=00:00:01\t"+
		"mailer=smtp\trelay=mx.example.net ([192.0.2.1])\tstat=error2\t550 5.1.1 no bob")
	l.delay, l.ip, l.status, l.text = -time.Second, "", OK3, ""
	expect(t, l.line(SyslogCommas), "S157AbTCLWiT: to=<bob@example.net>, delay=00:00:00, xdelay=00:00:01, "+
		"mailer=smtp, relay=mx.example.net, stat=ok3 ")
}

func TestLoggedLineIsCut(t *testing.T) {
	long := strings.Repeat("x", 1000)
	l := logged{user: long, channel: long, relay: long, ip: long, status: OK, text: long}
	expect(t, l.line(SyslogCommas), fmt.Sprintf(": to=<%.200s>, delay=00:00:00, xdelay=00:00:00, mailer=%.80s, "+
		"relay=%.200s ([%.80s]), stat=ok %.400s", long, long, long, long, long))
	l.relay = ""
	expect(t, l.line(SyslogCommas), fmt.Sprintf(": to=<%.200s>, delay=00:00:00, xdelay=00:00:00, mailer=%.80s, "+
		"stat=ok %.200s", long, long, long))
}

func TestRemoteHostAndAddress(t *testing.T) {
	for remote, want := range map[string][2]string{
		"":                                {"", ""},
		"mx":                              {"mx", ""},
		"dns; mx.example.net":             {"mx.example.net", ""},
		"dns; mx.example.net (192.0.2.1)": {"mx.example.net", "192.0.2.1"},
		"dns;  mx ([2001:db8::1])":        {"mx", "2001:db8::1"},
		"x-local; odd)":                   {"odd)", ""},
	} {
		if host, ip := cutRemote(remote); host != want[0] || ip != want[1] {
			t.Errorf("%q: %q, %q", remote, host, ip)
		}
	}
}

// listen is a syslogd that returns what it was told.
func listen(t *testing.T) (address string, next func() string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "log")
	conn, err := net.ListenPacket("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return address, func() string {
		t.Helper()
		b := make([]byte, 4096)
		conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		n, _, err := conn.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func TestEachRecipientIsLoggedAsItWasReported(t *testing.T) {
	o := newTestSpool(t)
	o.put("B/I/7", rcpt("smtp", "a.example", "bob"), "N NOTIFY=SUCCESS",
		rcpt("smtp", "a.example", "carol"), rcpt("smtp", "a.example", "dave"), rcpt("smtp", "a.example", "eve"))
	address, next := listen(t)
	log := openSyslog(SyslogCommas, logs.SyslogOptions{Tag: "try", Network: "unixgram", Address: address})
	said := o.serve(&Server{Syslog: log, Deliver: func(m *Message) {
		ok := Result{Status: OK, Text: "250 ok", Fields: Fields{Remote: "dns; mx (192.0.2.1)"},
			Began: time.Now().Add(-61 * time.Second)}
		m.Recipients[0].Report(ok)
		m.Recipients[1].Report(ok)
		m.Recipients[1].Report(ok) // dropped: it has its result
		m.ReportRest(func(r *Recipient) Result {
			if r.User == "eve" {
				return Result{Status: Deferred, Text: "450 later"}
			}
			return Result{Status: Error, Text: "550 no"}
		})
	}}, "B/I/7\ta.example\n")
	log.Close()

	for _, want := range []string{
		`to=<bob>, .* xdelay=00:01:01, .* relay=mx \(\[192\.0\.2\.1\]\), stat=ok2 250 ok`,
		`to=<carol>, .* stat=ok3 250 ok`,
		`to=<dave>, .* xdelay=00:00:00, .* stat=error2 550 no`,
		`to=<eve>, .* stat=deferred 450 later`,
	} {
		line := next()
		if !regexp.MustCompile(`^<22>.* try\[[0-9]+\]: S7[^ :]*: ` + want + `\n$`).MatchString(line) {
			t.Errorf("syslog has %q, want %q", line, want)
		}
	}
	for _, word := range []string{"\tok2 ", "\tok3 ", "\terror2 ", "\tdeferred "} {
		if strings.Count(said, word) != 1 {
			t.Errorf("the scheduler heard %q, want one %q", said, word)
		}
	}
}

func TestSyslogSaysWhatTheSchedulerIsToWriteDown(t *testing.T) {
	o := newTestSpool(t)
	o.put("B/I/7", rcpt("smtp", "a.example", "bob"), rcpt("smtp", "a.example", "eve"))
	address, next := listen(t)
	log := openSyslog(SyslogTabs, logs.SyslogOptions{Tag: "try", Network: "unixgram", Address: address})
	o.serve(&Server{Syslog: log, Marking: SchedulerMarks, Deliver: func(m *Message) {
		m.Recipients[0].Report(Result{Status: OK2})
		m.Recipients[1].Report(Result{Status: Error2})
	}}, "B/I/7\ta.example\n")
	log.Close()
	for _, want := range []string{"\tstat=ok\t", "\tstat=error\t"} {
		if line := next(); !strings.Contains(line, want) {
			t.Errorf("syslog has %q, want %q", line, want)
		}
	}
}

func TestSyslogSaysWhatTheSessionItselfReports(t *testing.T) {
	o := newTestSpool(t)
	o.put("B/I/7", rcpt("smtp", "a.example", "bob"))
	address, next := listen(t)
	log := openSyslog(SyslogCommas, logs.SyslogOptions{Tag: "try", Network: "unixgram", Address: address})
	o.serve(&Server{Syslog: log, Deliver: func(*Message) {}}, "B/I/7\ta.example\n")
	log.Close()
	if line, want := next(), "stat=deferred the agent reported no result"; !strings.Contains(line, want) {
		t.Errorf("syslog has %q, want %q", line, want)
	}
}

func TestReportsDoNotNeedSyslog(t *testing.T) {
	for name, log := range map[string]*Syslog{
		"off":       OpenSyslog("try", SyslogOff),
		"not there": openSyslog(SyslogCommas, logs.SyslogOptions{Tag: "try", Network: "unixgram", Address: filepath.Join(t.TempDir(), "nobody")}),
	} {
		o := newTestSpool(t)
		o.put("B/I/7", rcpt("smtp", "a.example", "bob"), rcpt("smtp", "a.example", "eve"))
		o.serve(&Server{Syslog: log, Deliver: func(m *Message) {
			m.Recipients[0].Report(Result{Status: OK})
			m.ReportRest(func(*Recipient) Result { return Result{Status: Error} })
		}}, "B/I/7\ta.example\n")
		log.Close()
		if got := o.tags("B/I/7"); got != "+-" {
			t.Errorf("%s: tags are %q", name, got)
		}
	}
}
