package server

import (
	"bufio"
	"encoding/json"
	"errors"

	"zsched/mailq"
)

// errWrite is that the peer takes no more; why is the writer's own.
var errWrite = errors.New("writing to the peer")

// lines writes the text lines of an answer. With framed it is the answer of
// v2: Until in front, dots doubled, a dot at the end. Until is not sent before
// there is a line or the end, so that what goes wrong at once is a refusal.
type lines struct {
	w      *bufio.Writer
	framed bool
	begun  bool
	line   []byte // scratch for the caller
}

// put writes a line, which has no LF in it.
func (l *lines) put(line []byte) error {
	l.begin()
	if l.framed && len(line) > 0 && line[0] == '.' {
		_ = l.w.WriteByte('.')
	}
	_, _ = l.w.Write(line)
	if err := l.w.WriteByte('\n'); err != nil {
		return errWrite
	}
	return nil
}

func (l *lines) text(line string) error {
	l.line = append(l.line[:0], line...)
	return l.put(l.line)
}

// object writes a value as a line of JSON.
func (l *lines) object(v any) error {
	b := jsonBuffer{l.line[:0]}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	l.line = b.b
	return l.put(b.b[:len(b.b)-1])
}

type jsonBuffer struct{ b []byte }

func (j *jsonBuffer) Write(p []byte) (int, error) {
	j.b = append(j.b, p...)
	return len(p), nil
}

func (l *lines) begin() {
	if !l.begun && l.framed {
		_, _ = l.w.WriteString(mailq.Until + "\n")
	}
	l.begun = true
}

// broken writes what stands where a list had to go on. The old client waits
// for the end of a list for ever, so there is always one.
func (l *lines) broken(why error, asJSON bool) error {
	if asJSON {
		return l.object(mailq.ListError{Error: why.Error()})
	}
	return l.text(mailq.Incomplete + mailq.OneReply(why.Error()))
}

// end closes the answer; trouble is why it is not whole.
func (l *lines) end(trouble error, asJSON bool) error {
	if errors.Is(trouble, errWrite) {
		return trouble
	}
	if trouble != nil && !l.begun {
		_, _ = l.w.WriteString("-ERR; " + mailq.OneReply(trouble.Error()))
		return writeError(l.w.WriteByte('\n'))
	}
	if trouble != nil {
		if err := l.broken(trouble, asJSON); err != nil {
			return err
		}
	}
	l.begin()
	_, err := l.w.WriteString(".\n")
	return writeError(err)
}

func writeError(err error) error {
	if err != nil {
		return errWrite
	}
	return nil
}
