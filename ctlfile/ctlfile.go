// Package ctlfile reads, writes and marks message control files: the files in
// $POSTOFFICE/transport that say where a message goes, how far it has come
// and what went wrong (scheduler(8), "Message control file syntax").
//
// A control file is lines of bytes. The first byte of a line is its letter,
// the second its tag, the value starts at the third:
//
//	letter  value                                            how often
//	@       format flags, 0x00000007                         first, once
//	v       file that gets a log of the delivery
//	i       name of the message file, and of this file       once
//	o       offset of the body in the message file           once
//	l       log identity, the Message-ID
//	e       address for error messages                       the last counts
//	x       log identity of a message that this one replaces any number
//	T       host whose mail is to be tried now (ETRN)        any number
//	s       sender, a quad                                   for the r and X that follow
//	r       recipient: pid, delay, quad
//	X       alternative recipient: pid, delay, class, quad
//	N       NOTIFY=, ORCPT= and the like                     of the r or X before it
//	R       which part of the message a notice returns       of the r or X before it
//	n       envelope identity                                of the r or X before it
//	m       header block                                     for the r and X since the last m
//	M       block of MIME structure: skipped
//	b       alternate body: nobody writes or reads it
//	d       diagnostic, appended as recipients fail or succeed
//
// Other letters are ignored. A block, m or M, has a line end in place of the
// tag; its text is everything up to the first empty line. An empty line
// anywhere else is malformed.
//
// A quad is channel, host, user and privilege with a space between each; a
// blank inside one of them stands in double quotes or behind a backslash, and
// an empty one is written "-". Programs use the words as they are in the file,
// quotes included. In an r or X line the quad starts at the 13th byte: six
// bytes hold the pid of the agent that is at it, four were kept for delay
// reports that were never written.
//
//	  0 @ 0x00000007
//	 13 i 258367
//	 22 o 412
//	 28 l <m1@example.org>
//	 47 e alice@example.org
//	 67 s smtp mx.example.org alice@example.org 0
//	109 r           smtp example.net bob@example.net 0
//	156 N NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@example.net
//	210 R HDRS
//	217 n env-77
//	226 r           local - "carol x" 501
//	260 m
//	262 Received: by mx
//	    <TAB>id 1
//	    Subject: x
//	    <empty line>
//	296
//
// A recipient is known everywhere by the offset of its letter: bob is 109. Its
// tag is the state, changed in place by Swap:
//
//	      agent takes it        agent
//	' ' ─────────────────► '~' ──────► '+' delivered
//	 ▲                      │ │
//	 └──────────────────────┘ └──────► '-' failed for good
//	  agent defers, or the scheduler finds its pid dead
//
// While it is locked the six bytes after the tag name the agent: "~ 23456". A
// failure, and a success of which the sender wants to hear, is appended as
//
//	d 226:262:-1::1047508710<TAB>notary<TAB>no such user
//
// : recipient, header and N offset (-1: none), an empty field, the time, the
// notary's fields with 0x01 between them, and free text in which CR stands for
// a line end. The d line's own tag becomes '+' once somebody was told.
package ctlfile

import (
	"fmt"
	"time"
)

// MaxSize is the size in bytes beyond which a control file is refused.
const MaxSize = 1 << 30

// MaxWord is the longest channel or host, in bytes, that a recipient may be
// routed by: both go into lines to agents and from mailq clients. Of a list of
// hosts it is the first that counts.
const MaxWord = 4096

// Flags say which format a control file has: its @ line.
type Flags uint64

const (
	HasPID   Flags = 1 << iota // r and X lines have the six pid bytes
	HasDelay                   // r and X lines have the four delay bytes
	HasMIME                    // there may be M blocks

	// Supported are the flags known here. Written files have all of them.
	Supported = HasPID | HasDelay | HasMIME
)

// File is a control file as it was read. Its strings share one copy of the
// file's text.
type File struct {
	Flags Flags // 0 when the file has no @ line
	// Name is the i line: the base name of the message file and of this one.
	// It is "" only in a trigger file, which has T lines and no recipient.
	Name    string
	Body    int64  // offset of the body in the message file, -1 unknown
	LogID   string // "" when there was no Message-ID
	Verbose string // file that wants a log of the delivery, or ""
	// ErrorTo is where error messages go: the last e line, else the user of
	// the last s line. "" if NullSender.
	ErrorTo    string
	NullSender bool     // the last sender's channel is "error": never answer
	Obsoletes  []string // log identities of messages this one replaces
	Triggers   []string // values of T lines; see TriggerHost
	Senders    []Sender
	Recipients []Recipient // r and X lines in file order
	// Diagnostics are the d lines in file order. Their offsets are what the
	// file says and may name no recipient.
	Diagnostics []Diagnostic
	Torn        int64 // offset of a last d line that a crash cut short, or -1
	Size        int64 // of the control file, in bytes

	text string
}

// Sender is an s line.
type Sender struct {
	Offset int64
	Address
}

// Recipient is an r or X line and what follows it.
type Recipient struct {
	Offset int64  // of the letter: the recipient's identity
	Tag    Tag    // its state when the file was read
	Lock   string // the pid bytes without their blanks; see PID
	Class  int    // of an X line, from 1; 0 for an r line
	Address
	Sender int // index into File.Senders
	// Header and HeaderEnd bound the text of the recipient's m block, last
	// line end included; -1 when no m block follows.
	Header, HeaderEnd int64
	N                 int64  // offset of its N line, -1 for none
	DSN               string // value of the N line
	Notify            Notify // from DSN, or the default
	Ret, EnvID        string // values of its R and n lines
}

// Diagnostic is a d line: what became of a recipient.
type Diagnostic struct {
	Offset    int64 // of the d line itself
	Tag       Tag   // Open, or Delivered once somebody was told
	Recipient int64 // the recipient's offset, 0 if unreadable
	Header    int64 // its Header, -1 or 0 unknown
	N         int64 // its N, -1 unknown; read from either form, see Parse
	At        time.Time
	Notary    string // fields separated by 0x01, "" when absent
	Text      string // CR stands for a line end
}

// ParseError says where and why a control file is malformed.
type ParseError struct {
	Line   int   // from 1, the lines of blocks included
	Offset int64 // of the line's first byte
	Reason string
	// Unsupported are format flags that are not known here: the file is of a
	// later program and nothing is wrong with it. 0 for any other error.
	Unsupported Flags
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("line %d at byte %d: %s", e.Line, e.Offset, e.Reason)
}
