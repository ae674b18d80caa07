package text

// The last reply of a server in the text of a report. Lists, patterns for reasons and
// reply rules all use the same text.
//
// The text is often a transcript, whose lines are separated by CR:
//
//	<<- RCPT To:<user@example.com>
//	->> 452-4.2.2 The recipient's inbox is out of storage space.
//	->> 452 4.2.2 See the help pages. - gsmtp
//
// Its last reply is
//
//	452 4.2.2 The recipient's inbox is out of storage space. See the help pages. - gsmtp

import (
	"regexp"
	"strings"
)

// replyStart matches the beginning of a line of a reply: the reply code of SMTP and the
// enhanced status code (RFC 3463).
var replyStart = regexp.MustCompile(`^(smtp; )?([2-5]\d\d)(?:[- ]|$)(?:([245]\.\d{1,3}\.\d{1,3})(?: |$))?`)

// LastReply returns the last reply of a report's text in one line. The codes that begin
// each line of a reply in SMTP are there once. If the text ends with something else,
// LastReply returns its last line that is not empty; a command that got no reply is named
// without its arguments.
func LastReply(text string) string {
	line, before := cutLast(text)
	if command, ours := strings.CutPrefix(line, "<<- "); ours {
		command, _, _ = strings.Cut(command, " ")
		return "no reply to " + command
	}
	line = strings.TrimPrefix(line, "->> ")
	codes := replyStart.FindStringSubmatch(line)
	if codes == nil {
		return line
	}
	status, rest := codes[3], line[len(codes[0]):]
	for before != "" {
		line, before = cutLast(before)
		line = strings.TrimPrefix(strings.TrimPrefix(line, "->> "), "smtp; ")
		if !strings.HasPrefix(line, codes[2]+"-") {
			break
		}
		more := replyStart.FindStringSubmatch(line)
		said := line[len(codes[2]+"-"):]
		if status == "" || more[3] == status {
			status, said = more[3], line[len(more[0]):]
		}
		rest = strings.TrimSpace(said) + " " + rest
	}
	all := codes[1] + codes[2] + " "
	if status != "" {
		all += status + " "
	}
	return strings.TrimSpace(all + rest)
}

// ReplyCodes returns the parts of a reply in one line: its reply code, its enhanced status
// code, and what follows. code is "" if the text does not begin with a reply code.
func ReplyCodes(reply string) (code, status, rest string) {
	codes := replyStart.FindStringSubmatch(reply)
	if codes == nil {
		return "", "", reply
	}
	return codes[2], codes[3], reply[len(codes[0]):]
}

// cutLast returns the last line of a text that is not blank, and what precedes it.
func cutLast(text string) (line, before string) {
	text = strings.TrimRight(text, "\r\n \t")
	i := strings.LastIndexAny(text, "\r\n")
	return text[i+1:], text[:i+1]
}
