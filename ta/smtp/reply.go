// This file holds replies and their enhanced status codes.

package smtp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Reply is a server's reply to a command (RFC 5321 section 4.2).
type Reply struct {
	Code int
	// Status is the enhanced status code (RFC 3463) at the beginning of the text.
	// "" means that there is none, or that its class differs from that of Code.
	Status string
	Lines  []string // as received, with the code, without line ends
}

const (
	maxReplyLine  = 2048 // bytes; RFC 5321 section 4.5.3.1.5 allows 512
	maxReplyLines = 128
	maxDiagnostic = 500 // bytes of a reply's text
)

// errProtocol means that what the server sends is not SMTP.
var errProtocol = errors.New("peer does not speak SMTP")

// OK reports whether the command succeeded.
func (r Reply) OK() bool { return r.Code/100 == 2 }

// Permanent reports whether the command failed permanently.
func (r Reply) Permanent() bool { return r.Code/100 == 5 }

// Text returns the reply without its codes, with its lines joined by blanks.
func (r Reply) Text() string {
	var b strings.Builder
	for i, line := range r.Lines {
		text := strings.TrimSpace(replyText(line))
		if status := leadingStatus(text); status != "" && status == r.Status {
			text = strings.TrimSpace(text[len(status):])
		}
		if i > 0 && text != "" && b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	return b.String()
}

// replyText returns a line of a reply without its code and the separator.
func replyText(line string) string {
	if len(line) < 4 {
		return ""
	}
	return line[4:]
}

// parseReplyLine reads one line of a reply. last is false if another line follows.
func parseReplyLine(line string) (code int, last bool, err error) {
	if len(line) < 3 || len(line) > 3 && line[3] != ' ' && line[3] != '-' {
		return 0, false, fmt.Errorf("%w: %.80q", errProtocol, line)
	}
	for i := range 3 {
		if line[i] < '0' || line[i] > '9' {
			return 0, false, fmt.Errorf("%w: %.80q", errProtocol, line)
		}
	}
	code, _ = strconv.Atoi(line[:3])
	if code < 200 || code > 599 {
		return 0, false, fmt.Errorf("%w: %.80q", errProtocol, line)
	}
	return code, len(line) == 3 || line[3] == ' ', nil
}

// newReply makes a Reply from its code and lines.
func newReply(code int, lines []string) Reply {
	r := Reply{Code: code, Lines: lines}
	status := leadingStatus(strings.TrimSpace(replyText(lines[len(lines)-1])))
	if status != "" && int(status[0]-'0') == code/100 {
		r.Status = status
	}
	return r
}

// leadingStatus returns the enhanced status code at the beginning of a text, or "".
// The subject and the detail have up to three digits.
func leadingStatus(text string) string {
	word, _, _ := strings.Cut(text, " ")
	class, rest, _ := strings.Cut(word, ".")
	subject, detail, _ := strings.Cut(rest, ".")
	if len(class) != 1 || !strings.Contains("245", class) {
		return ""
	}
	for _, p := range []string{subject, detail} {
		if len(p) == 0 || len(p) > 3 || strings.Trim(p, "0123456789") != "" {
			return ""
		}
	}
	return word
}

// status returns the enhanced status code of a reply within a session. If the
// server gives none, it is the one that matches the reply code. The codes x.4.1 and
// x.4.2 become x.4.0, because they would make the scheduler defer the whole
// destination, although this server answers. The transcript has the server's code.
func (r Reply) status() string {
	s := r.Status
	if s == "" {
		s = defaultStatus(r.Code)
	}
	if s[1:] == ".4.1" || s[1:] == ".4.2" {
		return s[:1] + ".4.0"
	}
	return s
}

// statuses are the enhanced status codes for reply codes that say more than their class.
var statuses = map[int]string{
	421: "4.3.2", 450: "4.2.0", 451: "4.3.0", 452: "4.3.1", 453: "4.1.3", 455: "4.5.4",
	500: "5.5.2", 501: "5.5.4", 502: "5.5.1", 503: "5.5.1", 504: "5.5.4",
	521: "5.3.2", 550: "5.2.0", 551: "5.1.6", 552: "5.3.4", 553: "5.1.3", 555: "5.5.4",
}

func defaultStatus(code int) string {
	if status, ok := statuses[code]; ok {
		return status
	}
	return strconv.Itoa(code/100) + ".0.0"
}

// diagnostic returns the reply in the form of delivery status notices: "smtp; 550
// (no such user)".
func (r Reply) diagnostic() string {
	text := r.Text()
	if len(text) > maxDiagnostic {
		text = strings.ToValidUTF8(text[:maxDiagnostic], "")
	}
	return "smtp; " + strconv.Itoa(r.Code) + " (" + text + ")"
}
