package smtpserver

// Refusals: every reply of class 4 or 5 that a client can get.

import (
	"errors"

	"zsched/internal/header"
	"zsched/internal/postoffice"
)

// refusal is a reply of class 4 or 5. As an error, it is what a command returns that is
// refused; session.refuse sends it.
type refusal struct {
	code   int
	status string // enhanced status code (RFC 3463)
	reason string // one word for logs and metrics
	text   string
	ends   bool // the session ends after it; so it does after any 421
}

func (r *refusal) Error() string { return r.text }

// What ends a session.
var (
	errTooManySessions = &refusal{code: 421, status: "4.3.2", reason: "sessions", text: "Too many sessions"}
	errIdle            = &refusal{code: 421, status: "4.3.2", reason: "idle", text: "All sessions are taken, and this one was the slowest"}
	errStopping        = &refusal{code: 421, status: "4.3.2", reason: "stopping", text: "The server is stopping"}
	errTimeout         = &refusal{code: 421, status: "4.4.2", reason: "timeout", text: "Timeout"}
	errFault           = &refusal{code: 421, status: "4.3.0", reason: "fault", text: "Internal error"}
	errManyCommands    = &refusal{code: 421, status: "4.7.0", reason: "commands", text: "Too many commands without a message"}
	errManyErrors      = &refusal{code: 421, status: "4.7.0", reason: "errors", text: "Too many errors"}
	errAddressGuesses  = &refusal{code: 421, status: "4.7.0", reason: "guesses", text: "Too many wrong passwords"}
	errLoggedOut       = &refusal{code: 421, status: "4.7.0", reason: "logout", text: "The login is not valid any more"}
	errLongCommand     = &refusal{code: 500, status: "5.5.2", reason: "syntax", text: "Line too long", ends: true}
	errBadChunk        = &refusal{code: 501, status: "5.5.4", reason: "syntax", text: "BDAT takes a size and optionally LAST", ends: true}
	errEarlyHandshake  = &refusal{code: 554, status: "5.5.1", reason: "sequence", text: "Wait for the answer to STARTTLS", ends: true}
	errBareNewline     = &refusal{code: 550, status: "5.5.2", reason: "newline", text: "A message may not have a bare CR or LF", ends: true}
)

// Commands that are not understood, or come at the wrong time.
var (
	errControl     = &refusal{code: 500, status: "5.5.2", reason: "syntax", text: "Control characters in a command"}
	errUnknown     = &refusal{code: 500, status: "5.5.1", reason: "syntax", text: "Unknown command"}
	errNotOffered  = &refusal{code: 502, status: "5.5.1", reason: "syntax", text: "Not implemented here"}
	errNoArgument  = &refusal{code: 501, status: "5.5.4", reason: "syntax", text: "The command takes no parameter"}
	errArgument    = &refusal{code: 501, status: "5.5.4", reason: "syntax", text: "The command needs a parameter"}
	errParameter   = &refusal{code: 501, status: "5.5.4", reason: "syntax", text: "A parameter is malformed or given twice"}
	errNoExtension = &refusal{code: 555, status: "5.5.4", reason: "syntax", text: "Unknown parameter"}
	errNotGreeted  = &refusal{code: 503, status: "5.5.1", reason: "sequence", text: "Say EHLO first"}
	errNested      = &refusal{code: 503, status: "5.5.1", reason: "sequence", text: "A message has already begun"}
	errNoMail      = &refusal{code: 503, status: "5.5.1", reason: "sequence", text: "MAIL is missing"}
	errNoRecipient = &refusal{code: 503, status: "5.5.1", reason: "sequence", text: "No recipient was accepted"}
	errHasTLS      = &refusal{code: 503, status: "5.5.1", reason: "sequence", text: "TLS is in use already"}
)

// Senders and recipients. Options.CheckRecipient returns the exported ones.
var (
	errSenderSyntax    = &refusal{code: 501, status: "5.1.7", reason: "address", text: "MAIL takes FROM:<address>"}
	errRecipientSyntax = &refusal{code: 501, status: "5.1.3", reason: "address", text: "RCPT takes TO:<address>"}
	errSender          = &refusal{code: 553, status: "5.1.7", reason: "address", text: "The address is not one mailbox with a domain"}
	errRecipient       = &refusal{code: 553, status: "5.1.3", reason: "address", text: "The address is not one mailbox with a domain"}
	errNeedsUTF8       = &refusal{code: 553, status: "5.6.7", reason: "address", text: "The address needs SMTPUTF8"}
	errNotSender       = &refusal{code: 553, status: "5.7.1", reason: "sender", text: "This login may not use this sender"}
	errRelay           = &refusal{code: 550, status: "5.7.1", reason: "relay", text: "Relaying is not allowed"}
	ErrNoUser          = &refusal{code: 550, status: "5.1.1", reason: "user", text: "No such user"}
	ErrNoRoute         = &refusal{code: 550, status: "5.1.2", reason: "route", text: "No route to this domain"}
	errRate            = &refusal{code: 450, status: "4.7.1", reason: "rate", text: "Too many recipients in a short time"}
	errManyRecipients  = &refusal{code: 452, status: "4.5.3", reason: "recipients", text: "Too many recipients"}
	errManyEnvelopes   = &refusal{code: 452, status: "4.5.3", reason: "memory", text: "Too many recipients at this time"}
)

// Messages.
var (
	errTooLarge  = &refusal{code: 552, status: "5.3.4", reason: "size", text: "Message too large"}
	errLongLine  = &refusal{code: 552, status: "5.6.0", reason: "line", text: "A line of the message is too long"}
	errHeader    = &refusal{code: 554, status: "5.6.0", reason: "header", text: "The header is too long, or has too many fields or a NUL"}
	errHopCount  = &refusal{code: 554, status: "5.4.6", reason: "hopcount", text: "The message went through too many hosts and is in a loop"}
	errNotStored = &refusal{code: 451, status: "4.3.0", reason: "storage", text: "The message could not be stored"}
	errFull      = &refusal{code: 452, status: "4.3.1", reason: "disk", text: "Not enough disk space"}
	errBusy      = &refusal{code: 452, status: "4.3.2", reason: "queue", text: "The queue is too long"}
)

// Passwords and ETRN.
var (
	errNeedsLogin    = &refusal{code: 530, status: "5.7.0", reason: "auth", text: "Log in first"}
	errNeedsTLS      = &refusal{code: 523, status: "5.7.10", reason: "auth", text: "TLS is required"}
	errMechanism     = &refusal{code: 504, status: "5.5.4", reason: "auth", text: "Unknown mechanism"}
	errAuthenticated = &refusal{code: 503, status: "5.5.1", reason: "sequence", text: "Already authenticated"}
	errResponse      = &refusal{code: 501, status: "5.5.2", reason: "auth", text: "Malformed response"}
	errCancelled     = &refusal{code: 501, status: "5.7.0", reason: "auth", text: "Authentication cancelled"}
	errPassword      = &refusal{code: 535, status: "5.7.8", reason: "password", text: "Wrong user or password"}
	errUserGuesses   = &refusal{code: 454, status: "4.7.0", reason: "guesses", text: "Too many wrong passwords for this user"}
	errManyLogins    = &refusal{code: 454, status: "4.7.0", reason: "logins", text: "Too many logins at this time"}
	errNoPasswords   = &refusal{code: 454, status: "4.7.0", reason: "fault", text: "Passwords cannot be checked now"}
	errETRN          = &refusal{code: 459, status: "4.7.1", reason: "relay", text: "ETRN is not allowed for this client"}
	errHost          = &refusal{code: 501, status: "5.5.4", reason: "syntax", text: "ETRN takes a host's name"}
	errManyTriggers  = &refusal{code: 458, status: "4.7.1", reason: "rate", text: "Too many ETRNs in a short time"}
	errNotStarted    = &refusal{code: 458, status: "4.3.0", reason: "fault", text: "The queue cannot be started now"}
)

// refusalOf returns the reply to a message that cannot be accepted because of an error.
func refusalOf(err error) *refusal {
	known, isRefusal := errors.AsType[*refusal](err)
	switch {
	case isRefusal:
		return known
	case errors.Is(err, header.ErrUnfit):
		return errHeader
	case postoffice.IsNoRoom(err):
		return errFull
	}
	return errNotStored
}
