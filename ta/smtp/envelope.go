package smtp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
	"zsched/ta"
)

// work is what a job is about.
type work struct {
	message    *ta.Message
	recipients []*ta.Recipient
	alone      bool // they are all that the job line is about
	contents   map[contentKey]*content
}

// maxRecipients is how many recipients a transaction has (RFC 5321 section
// 4.5.3.1.8: every server takes as many).
const maxRecipients = 100

// envelope is what recipients must have in common to share a transaction.
type envelope struct {
	from    string // "" for nobody
	header  string
	ret, id string
	by      string // value of BY, or ""
	utf8    bool   // SMTPUTF8 is needed
}

// group is recipients that share one.
type group struct {
	envelope
	recipients []*ta.Recipient
}

// groups are the recipients that have no result yet, by what they share.
func (w *work) groups() []*group {
	var all []*group
	known := map[envelope]*group{}
	for _, r := range w.recipients {
		if r.Reported() {
			continue
		}
		e := envelope{from: senderOf(r), header: r.Headers(), ret: r.Ret, id: r.EnvID}
		e.by, _ = ctlfile.DSNWord(r.DSN, "BY")
		e.utf8 = !ascii(e.from) || !ascii(r.User)
		g := known[e]
		if g == nil {
			g = &group{envelope: e}
			known[e] = g
			all = append(all, g)
		}
		g.recipients = append(g.recipients, r)
	}
	return all
}

// senderOf is the reverse path: empty for mail from nobody.
func senderOf(r *ta.Recipient) string {
	if r.From.Channel == "error" || r.From.User == "-" {
		return ""
	}
	return bare(r.From.User)
}

// bare is an address without the angle brackets that some write.
func bare(address string) string {
	if inner, ok := strings.CutPrefix(address, "<"); ok {
		return strings.TrimSuffix(inner, ">")
	}
	return address
}

// validAddress refuses what would end the path it stands in, or the line.
func validAddress(address string) bool {
	quoted := false
	for i := 0; i < len(address); i++ {
		switch c := address[i]; {
		case c < ' ' || c == 0x7f:
			return false
		case c == '\\':
			i++
			if i == len(address) || address[i] < ' ' {
				return false
			}
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '<' || c == '>') && !quoted:
			return false
		}
	}
	return !quoted && address != ""
}

// mailCommand is the MAIL command for a message.
func (g *group) mailCommand(e extensions, c *content, by string) string {
	line := "MAIL From:<" + g.from + ">"
	if c.eightBit() && e.eightBit {
		line += " BODY=8BITMIME"
	}
	if g.utf8 {
		line += " SMTPUTF8"
	}
	if e.sized {
		line += " SIZE=" + strconv.FormatInt(c.size, 10)
	}
	if e.dsn {
		if ret := strings.ToUpper(g.ret); ret == "FULL" || ret == "HDRS" {
			line += " RET=" + ret
		}
		if isParameter(g.id) {
			line += " ENVID=" + g.id
		}
	}
	if e.deliverBy && by != "" {
		line += " BY=" + by
	}
	return line
}

// rcptCommand is the RCPT command for a recipient.
func rcptCommand(e extensions, r *ta.Recipient) string {
	line := "RCPT To:<" + bare(r.User) + ">"
	if !e.dsn {
		return line
	}
	if _, given := ctlfile.DSNWord(r.DSN, "NOTIFY"); given {
		if notify := notifyParameter(r.Notify); notify != "" {
			line += " NOTIFY=" + notify
		}
	}
	if original, _ := ctlfile.DSNWord(r.DSN, "ORCPT"); isParameter(original) && strings.Contains(original, ";") {
		line += " ORCPT=" + original
	}
	return line
}

// notifyParameter has the words that RFC 3461 knows, NEVER alone.
func notifyParameter(n ctlfile.Notify) string {
	if n&ctlfile.NotifyNever != 0 {
		return "NEVER"
	}
	return (n & (ctlfile.NotifySuccess | ctlfile.NotifyFailure | ctlfile.NotifyDelay)).String()
}

// isParameter says that a value can stand in a command.
func isParameter(s string) bool {
	return s != "" && len(s) <= 500 && strings.Trim(s, " \t") == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// deadline is a request that mail be delivered within a time (RFC 2852).
type deadline struct {
	left   int64 // seconds, less than 0 when it is past
	mode   byte  // R: return it then; N: go on, and tell the sender
	suffix string
}

// parseBy reads the value of BY, as of the time the message came.
func parseBy(value string, age time.Duration) (d deadline, ok bool) {
	seconds, mode, _ := strings.Cut(value, ";")
	n, err := strconv.ParseInt(seconds, 10, 64)
	mode = strings.ToUpper(mode)
	if err != nil || mode == "" || mode[0] != 'R' && mode[0] != 'N' {
		return deadline{}, false
	}
	return deadline{left: n - int64(age/time.Second), mode: mode[0], suffix: mode}, true
}

// deadline is the BY parameter to pass on, or why the message must not go.
func (g *group) deadline(e extensions, age time.Duration) (by string, refused *failure) {
	d, ok := parseBy(g.by, age)
	if !ok {
		return "", nil
	}
	returned := func(code, text string) *failure {
		return &failure{permanent: true, code: code, diagnostic: "smtp; 554 (" + text + ")", text: text}
	}
	switch {
	case d.mode == 'R' && d.left <= 0:
		return "", returned("5.4.7", "the time for delivery that the sender set is over")
	case d.mode == 'R' && !e.deliverBy:
		return "", returned("5.3.3", "the sender set a time for delivery, of which the next host knows nothing")
	case d.mode == 'R' && d.left < e.minBy:
		return "", returned("5.4.7", fmt.Sprintf("the sender wants delivery within %d seconds, the next host allows no less than %d", d.left, e.minBy))
	}
	return fmt.Sprintf("%d;%s", d.left, d.suffix), nil
}
