// Package report writes notices: the messages that tell a sender what became of the
// mail (delivery status notifications, RFC 3464).
//
// A notice is about one message and some of its recipients. It has three parts
// (RFC 6522):
//
//	multipart/report
//	├─ text/plain                what a person reads, as the form (forms/delivery) says
//	├─ message/delivery-status   what a program reads: one group of fields a recipient
//	└─ message/rfc822            the message, or text/rfc822-headers, its header
//
// Addresses that are not ASCII are encoded in the second part, as RFC 6533 says. If the
// header of the message is not ASCII, the third part is message/global or
// message/global-headers.
//
// The values come from a control file: Recipients turns its d lines into
// recipients of a notice, and Reporter.Notice adds the rest. Compose makes the
// message out of these values. It looks at no clock and no file, so the same
// values give the same bytes. Reporter.Submit gives the message to the router,
// with the null sender, in this order:
//
//	write it under a temporary name, where no other user can reach it
//	fsync
//	rename it into router/
//	fsync the directory
//
// Only then does the caller mark the d lines as reported. A crash in between
// loses no notice; one may be sent twice.
//
// A notice is an automatic answer and follows the rules for these (RFC 3834): its
// sender is null, it never goes to a null sender, Auto-Submitted marks it as
// automatic, and In-Reply-To and References say which message it is about.
package report

import (
	"strings"
	"time"
)

// Action is what became of a recipient (RFC 3464 section 2.3.3).
type Action uint8

const (
	Failed    Action = iota + 1 // there will be no further attempt
	Delayed                     // attempts go on
	Delivered                   // it is in the recipient's mailbox
	Relayed                     // it was passed on to a system that sends no notices of success
	Expanded                    // it was passed on to the members of a list
)

// actions are the words of RFC 3464, in the order of the constants.
var actions = [...]string{"", "failed", "delayed", "delivered", "relayed", "expanded"}

// String is the word of RFC 3464.
func (a Action) String() string { return actions[a] }

// parseAction reads the action of a d line. Only the beginning of s has to match,
// because some agents add text after the word. The result is 0 for any other word.
func parseAction(s string) Action {
	for a := Failed; a <= Expanded; a++ {
		if word := actions[a]; len(s) >= len(word) && strings.EqualFold(s[:len(word)], word) {
			return a
		}
	}
	return 0
}

// Recipient is one recipient in a notice.
type Recipient struct {
	// Offset is that of the recipient in the control file: ctlfile.Recipient. 0
	// stands for a recipient that the file does not have.
	Offset  int64
	Address string // the final one, which the agent delivered to
	// Original is the value of the ORCPT word, type;xtext: the address as the
	// sender wrote it. "" if the sender gave none.
	Original string
	Action   Action
	// Status is an enhanced status code (RFC 3463). If its class does not fit the
	// action, or if it is "", the notice has another one: see status.
	Status string
	// Diagnostic is the other side's reply with its type, "smtp; 550 no such
	// user", or "".
	Diagnostic string
	Remote     string // the host that said it, "dns; mx.example.net (192.0.2.1)", or ""
	// Text is the last report on the recipient, in words. CR separates its lines.
	// They may be a transcript: a line with <<- is a command of the agent, and one
	// with ->> a reply of the other side.
	Text        string
	LastAttempt time.Time // zero: not known
	RetryUntil  time.Time // when a delayed recipient expires; zero: not known
}

// Notice is the content of one notice.
type Notice struct {
	Host string // DNS name of this mail system
	// To are the plain addresses that get the notice. Sender is the address in the
	// To field. It is "" if only copies are sent, because the sender of the
	// message is null (a double fault).
	To     []string
	Sender string
	// EnvelopeID is the ENVID that the sender gave, decoded, or "".
	EnvelopeID string
	SpoolID    string // of the message
	Source     string // of the message, whose turn the notice takes (ctlfile.Source); "": unknown
	ArrivedAt  time.Time
	WrittenAt  time.Time // becomes the Date
	Recipients []Recipient
	// Header is the message's header, lines with their ends.
	Header string
	// Body is the message's body. Full says that the notice returns it, and not
	// only the header.
	Body []byte
	Full bool
	// TooLarge says that the body is left out because of its size.
	TooLarge bool
	Form     *Form // nil: the built-in form
}

// count returns how many recipients have the action.
func (n *Notice) count(a Action) int {
	count := 0
	for i := range n.Recipients {
		if n.Recipients[i].Action == a {
			count++
		}
	}
	return count
}

// isASCII reports whether s has no byte above 127.
func isASCII[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
