package mailbox

import (
	"fmt"
	"os"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// log adds a delivery to the delivery log, one write a line: the message, the
// size of the mbox before, what was added, and where.
func (a *Agent) log(m *ta.Message, out outcome) {
	if a.Log == "" {
		return
	}
	id := m.File.LogID
	if id == "" {
		id = m.SpoolID()
	}
	f, err := os.OpenFile(a.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d %d %s\n", id, out.Before, out.Bytes, visible(out.Name))
		_ = f.Close()
	}
	if err != nil && a.Warn != nil {
		a.Warn(fmt.Sprintf("delivery log: %v", err))
	}
}

// entry is one recipient's result for the system log.
type entry struct {
	ta.Result
	converted bool
	began     time.Time
}

// syslog hands over ZMailer's line for a recipient.
func (a *Agent) syslog(m *ta.Message, r *ta.Recipient, e entry) {
	if a.Syslog == nil {
		return
	}
	now := a.Now()
	text := e.Text[strings.LastIndexByte(e.Text, '\r')+1:]
	conversion := "NONE"
	if e.converted {
		conversion = "8BIT"
	}
	lead, comma := " ", ", "
	if a.SyslogTabs {
		lead, comma = "\t", "\t"
	}
	a.Syslog(m.SpoolID() + ":" + lead + strings.Join([]string{
		"to=" + visible(first(r.User, 200)),
		"delay=" + clock(now.Sub(m.ModifiedAt)),
		"xdelay=" + clock(now.Sub(e.began)),
		"mailer=" + visible(first(r.Channel, 80)),
		"stat=" + first(a.word(r, e.Status), 80),
	}, comma) + lead + visible(first(text, 400)) + " cvt=" + conversion)
}

// word is the status as it travels to the scheduler.
func (a *Agent) word(r *ta.Recipient, s ta.Status) string {
	if a.Marking == ta.AgentMarks {
		switch {
		case s == ta.OK && r.Notify.Wants(ctlfile.NotifySuccess):
			s = ta.OK2
		case s == ta.OK:
			s = ta.OK3
		case s == ta.Error:
			s = ta.Error2
		}
	}
	return s.String()
}

// clock is a time as HH:MM:SS, with as many hours as there are.
func clock(d time.Duration) string {
	s := max(int64(d/time.Second), 0)
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

func first(s string, n int) string { return s[:min(len(s), n)] }
