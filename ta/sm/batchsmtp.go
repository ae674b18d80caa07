package sm

// Batch SMTP (flags b, B, BB and H): the commands before the message.

import (
	"fmt"
	"strings"

	"zsched/ctlfile"
)

// commands are the SMTP commands before the message, up to DATA.
func (m *message) commands() (lines []string) {
	flags := m.agent.Mailer.Flags
	switch {
	case flags&BatchHello != 0 && flags&BatchESMTP != 0:
		lines = append(lines, "EHLO "+m.agent.Host)
	case flags&BatchHello != 0:
		lines = append(lines, "HELO "+m.agent.Host)
	}
	mail := "MAIL FROM:" + path(senderOf(m.group[0]))
	if flags&BatchESMTP != 0 {
		mail += fmt.Sprintf(" SIZE=%d", m.size+m.size/32) // line ends and conversion make it longer
		if m.plan.EightBitBody || m.plan.EightBitHeader {
			mail += " BODY=8BITMIME"
		}
	}
	if first := m.group[0]; flags&BatchDSN != 0 {
		if ret := strings.ToUpper(first.Ret); ret == "FULL" || ret == "HDRS" {
			mail += " RET=" + ret
		}
		mail += parameter("ENVID", first.EnvID)
	}
	lines = append(lines, mail)
	for _, r := range m.group {
		rcpt := "RCPT TO:" + path(r.User)
		if flags&BatchDSN != 0 {
			for _, key := range []string{"NOTIFY", "ORCPT"} {
				value, _ := ctlfile.DSNWord(r.DSN, key)
				rcpt += parameter(key, value)
			}
		}
		lines = append(lines, rcpt)
	}
	return append(lines, "DATA")
}

// parameter is a parameter of a command, with a blank before it. It is "" for a
// value that no command can have.
func parameter(key, value string) string {
	if !ctlfile.DSNValue(value) {
		return ""
	}
	return " " + key + "=" + value
}

// path is an address in angle brackets. It keeps its quotes and backslashes even
// with flag s: without them it could be read as two words.
func path(address string) string {
	if address == "-" { // an empty word of the control file
		address = ""
	}
	return "<" + strings.TrimSuffix(strings.TrimPrefix(address, "<"), ">") + ">"
}

// validPath reports whether no byte of a path ends it early, or ends the line.
func validPath(path string) bool {
	address, quoted := path[1:len(path)-1], false
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case c < ' ' || c == 0x7f:
			return false
		case c == '\\':
			if i++; i == len(address) || address[i] < ' ' {
				return false
			}
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '<' || c == '>') && !quoted:
			return false
		}
	}
	return !quoted
}
