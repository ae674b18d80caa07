package server

// Answers: how lines are sent to a client.

import (
	"bufio"
	"encoding/json"
	"errors"
	"strings"

	"zsched/internal/text"
	"zsched/mailq"
)

// errWrite says that nothing more can be sent to the peer. The cause does not
// matter.
var errWrite = errors.New("writing to the peer")

// answer writes an answer of many lines. A framed answer is one of v2: it begins
// with Until, doubles initial dots and ends with a dot. Until is written only
// with the first line or the end, so that an error before that can still be sent
// as a refusal.
type answer struct {
	w      *bufio.Writer
	framed bool
	begun  bool
}

// text writes a line, which must not contain LF.
func (a *answer) text(line string) error {
	a.begin()
	switch {
	case !a.framed:
		// Clients of v1, and those who read the rendezvous file, show the text as it is.
		line = text.EscapeExcept(line, "\t\r")
	case strings.HasPrefix(line, "."):
		_ = a.w.WriteByte('.')
	}
	_, _ = a.w.WriteString(line)
	if err := a.w.WriteByte('\n'); err != nil {
		return errWrite
	}
	return nil
}

// object writes a value as a line of JSON.
func (a *answer) object(v any) error {
	var line strings.Builder
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	return a.text(strings.TrimSuffix(line.String(), "\n"))
}

func (a *answer) begin() {
	if !a.begun && a.framed {
		_, _ = a.w.WriteString(mailq.Until + "\n")
	}
	a.begun = true
}

// incomplete writes the last line of an incomplete list.
func (a *answer) incomplete(cause error, asJSON bool) error {
	if asJSON {
		return a.object(mailq.ListError{Error: cause.Error()})
	}
	return a.text(mailq.Incomplete + mailq.OneReply(cause.Error()))
}

// end ends the answer. cause is the error that made the list incomplete, or nil. An
// end is always written, because ZMailer's client waits for it forever.
func (a *answer) end(cause error, asJSON bool) error {
	if errors.Is(cause, errWrite) {
		return cause
	}
	var err error
	switch {
	case cause != nil && !a.begun:
		_, err = a.w.WriteString("-ERR; " + mailq.OneReply(cause.Error()) + "\n")
	case cause != nil:
		if err = a.incomplete(cause, asJSON); err != nil {
			return err
		}
		fallthrough
	default:
		a.begin()
		_, err = a.w.WriteString(".\n")
	}
	if err != nil {
		return errWrite
	}
	return nil
}
