// Package ctlfile reads, writes and marks message control files: the files in
// $POSTOFFICE/transport that say where a message goes, how far it has come
// and what went wrong (ctlfile(5)).
//
// A control file consists of lines. The first byte of a line is its letter,
// the second its tag; the value starts at the third:
//
//	letter  value                                            how often, or for which line
//	@       format flags, 0x00000007                         first, once
//	v       file for a log of the delivery: kept, and not used
//	i       name of the message file, and of this file       once
//	o       offset of the body in the message file           once
//	l       log identity, the Message-ID
//	S       where the submission came from                   the first counts
//	e       address for error messages                       the last counts
//	x       log identity of a message that this one replaces any number
//	T       host whose mail is to be tried now (ETRN)        any number
//	s       sender, an address quad                          for the r and X that follow
//	r       recipient: pid, delay, address quad
//	X       alternative recipient: pid, delay, class, quad
//	N       NOTIFY=, ORCPT= and the like                     of the r or X before it
//	R       which part of the message a notice returns       of the r or X before it
//	n       envelope identity                                of the r or X before it
//	O       origin of a recipient that was moved             of the r or X before it
//	m       header block                                     for the r and X since the last m
//	M       block of MIME structure: skipped
//	b       alternate body: no program writes or reads it
//	d       diagnostic, appended as recipients fail or succeed
//
// Other letters are ignored. A block, m or M, has a line end in place of the
// tag; its text is everything up to the first empty line. An empty line
// anywhere else is malformed.
//
// An address quad is channel, host, user and privilege, separated by spaces. A
// blank inside a word is quoted with double quotes or a backslash, and an empty
// word is written "-". Programs use the words as they are in the file, with their
// quotes. In an r or X line the quad starts at the 13th
// byte: six bytes hold the pid of the agent that has locked the recipient, the
// next four the number of delay notices that the sender has received.
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
// Every program identifies a recipient by the offset of the line's letter: bob is 109.
// Its tag is its state, which Swap changes in place:
//
//	      agent locks it        agent
//	' ' ─────────────────► '~' ──────► '+' delivered
//	 ▲                      │ │
//	 └──────────────────────┘ └──────► '-' failed for good
//	  agent defers it, or the scheduler finds that its pid is dead
//
// While a recipient is locked, the six bytes after the tag name the agent:
// "~ 23456". A failure, and a success that the sender wants to be told of, is
// appended as a diagnostic:
//
//	d 226:262:-1::1047508710<TAB>notary<TAB>no such user
//
// The fields before the first TAB are the offsets of the recipient, of its header text
// and of its N line (-1 for none), an empty field, and the time. The notary is a text
// whose fields are separated by 0x01; see Diagnostic. In the text after it CR stands
// for a newline. The tag of the d line becomes '+' when the sender has been told.
package ctlfile

import (
	"fmt"
	"sort"
	"strings"
)

// MaxSize is the size in bytes of the largest control file that Parse accepts: a
// million recipients, and room for their headers.
const MaxSize = 1 << 28

// MaxWord bounds the length in bytes of a recipient's channel and host (RouteChannel
// and RouteHost). Both appear in lines to agents and in lines from mailq clients.
const MaxWord = 4096

// Flags say which format a control file has: its @ line.
type Flags uint64

const (
	HasPID   Flags = 1 << iota // r and X lines have the six pid bytes
	HasDelay                   // r and X lines have the four delay bytes
	HasMIME                    // there may be M blocks

	// Supported are the flags that Parse knows. Encode writes all of them.
	Supported = HasPID | HasDelay | HasMIME
)

// File is a parsed control file. Its strings share one copy of the file's text.
type File struct {
	Flags Flags // 0 when the file has no @ line
	// Name is the i line: the base name of the message file and of this file.
	// It is "" only in a trigger file, which has T lines and no recipient.
	Name      string
	Body      int64  // offset of the body in the message file, -1 if unknown
	MessageID string // "" when there was no Message-ID
	Source    string // value of the S line, "" for none; see ParseSource
	// ErrorTo is the address for error messages: the last e line, or else the user of
	// the last s line. It is "" if NullSender is set.
	ErrorTo    string
	NullSender bool     // the last sender's channel is "error": no notice may be sent
	Obsoletes  []string // log identities of messages that this one replaces
	Triggers   []string // values of the T lines; see TriggerHost
	Senders    []Sender
	Recipients []Recipient // r and X lines in file order
	// Diagnostics are the d lines in file order, without those that mean nothing (SentText).
	// The offsets in them are not checked: there may be no recipient at such an offset.
	Diagnostics []Diagnostic
	Torn        int64 // offset of the first d line that a crash cut short or erased, or -1
	Size        int64 // of the control file, in bytes

	text   string
	blocks []block // header blocks by offset, if text is "" (Recent)
}

// Sender is an s line.
type Sender struct {
	Offset int64
	Address
	ErrorTo string // the e line before it, "" for none
}

// IsNull reports whether the sender is null, as in MAIL FROM:<>.
func (s *Sender) IsNull() bool { return s.Channel == "error" }

// NoticesTo returns where notices about recipient i go: to its own sender. null says that
// this sender is null.
func (f *File) NoticesTo(i int) (address string, null bool) {
	n := f.Recipients[i].Sender
	switch s := &f.Senders[n]; {
	case n == len(f.Senders)-1:
		return f.ErrorTo, f.NullSender
	case s.IsNull():
		return "", true
	case s.ErrorTo != "":
		return s.ErrorTo, false
	default:
		return s.User, false
	}
}

// Headers returns the text of recipient i's header block, each line with its
// end, or "" for a recipient without a block.
func (f *File) Headers(i int) string {
	switch r := &f.Recipients[i]; {
	case r.Header < 0:
		return ""
	case f.text == "":
		n := sort.Search(len(f.blocks), func(n int) bool { return f.blocks[n].at >= r.Header })
		return f.blocks[n].text
	default:
		return f.text[r.Header:r.HeaderEnd]
	}
}

// TriggerHost returns the host in the value of a T line, in lower case: the word
// before the first blank. The rest of the value says who sent the ETRN.
func TriggerHost(value string) string {
	if end := strings.IndexAny(value, " \t"); end >= 0 {
		value = value[:end]
	}
	return lower(value)
}

// ParseError says where and why a control file is malformed.
type ParseError struct {
	Line   int   // from 1; the lines of blocks count
	Offset int64 // of the line's first byte
	Reason string
	// Unsupported holds the format flags that Parse does not know. If it is not
	// 0, a newer program wrote the file, and the file is not malformed.
	Unsupported Flags
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("line %d at byte %d: %s", e.Line, e.Offset, e.Reason)
}
