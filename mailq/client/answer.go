package client

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"

	"zsched/internal/text"
	"zsched/mailq"
)

// This file reads answers: a reply of one line, lines of text, objects of JSON.

// maxLine is the longest line that a server may send, in bytes. One line has all
// recipients of a message for one host.
const maxLine = 64 << 20

// Answer reads an answer of one line and returns the text after "+". A refusal
// is an error. Answer skips the empty lines that ZMailer sends after its replies
// to KILL.
func (c *Client) Answer() (string, error) {
	line, err := "", error(nil)
	for line == "" {
		if line, err = c.line(); err != nil {
			return "", c.unexpectedEnd(err)
		}
	}
	switch s := line[1:]; line[0] {
	case '+':
		return s, nil
	case '-':
		if why, ok := strings.CutPrefix(s, "ERR; "); ok {
			return "", errorf(NotDone, "%s", text.Escape(why))
		}
		return "", errorf(Refused, "%s", text.Escape(s))
	}
	return "", c.breakOff(errorf(Unavailable, "%s answers %q, which begins with neither + nor -", c.options.Server, line))
}

// Lines reads an answer of many lines. If the caller stops before the last one,
// the client can only be closed.
func (c *Client) Lines() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := c.Answer(); err != nil {
			yield("", err)
			return
		}
		for first := true; ; first = false {
			line, err := c.line()
			if err != nil {
				yield("", c.unexpectedEnd(err))
				return
			}
			if line == "." {
				return
			}
			line = strings.TrimPrefix(line, ".")
			if why, ok := strings.CutPrefix(line, mailq.Incomplete); ok {
				if end, err := c.line(); err != nil || end != "." {
					_ = c.breakOff(errorf(Unavailable, "%s sends more lines after the end of an answer", c.options.Server))
				}
				yield("", incomplete(first, why))
				return
			}
			if !yield(line, nil) {
				_ = c.breakOff(errors.New("the last answer was not read to its end"))
				return
			}
		}
	}
}

// incomplete returns the error of an incomplete list. If the list has no line,
// the command could not be executed.
func incomplete(first bool, why string) error {
	if first {
		return errorf(NotDone, "%s", text.Escape(why))
	}
	return errorf(Unavailable, "the list is not whole: %s", text.Escape(why))
}

// Show sends a command and reads its answer of many lines.
func (c *Client) Show(command string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := c.Send(command); err != nil {
			yield("", err)
			return
		}
		c.Lines()(yield)
	}
}

// Objects reads the lines of an answer as JSON, one object a line. If the list
// is incomplete, its last item is an error.
func Objects[T any](lines iter.Seq2[string, error]) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		first := true
		for line, err := range lines {
			var object *T
			if err == nil {
				object, err = parseObject[T](first, line)
			}
			first = false
			if !yield(object, err) || err != nil {
				return
			}
		}
	}
}

// parseObject reads a line of JSON. first says whether it is the first line of
// its answer.
func parseObject[T any](first bool, line string) (*T, error) {
	if err := listError(first, line); err != nil {
		return nil, err
	}
	object := new(T)
	if err := json.Unmarshal([]byte(line), object); err != nil {
		return nil, errorf(Unavailable, "malformed JSON %q: %w", line, err)
	}
	return object, nil
}

// listError returns the error of an incomplete list if the line is a
// mailq.ListError, or else nil.
func listError(first bool, line string) error {
	var last mailq.ListError
	if strings.HasPrefix(line, `{"error":`) && json.Unmarshal([]byte(line), &last) == nil {
		return incomplete(first, last.Error)
	}
	return nil
}

// line reads a line without its end. The error is io.EOF if the server closed the
// connection between two lines.
func (c *Client) line() (string, error) {
	if c.broken != nil {
		return "", c.broken
	}
	server := c.options.Server
	var line []byte
	for {
		piece, err := c.in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > maxLine:
			err = errorf(Unavailable, "%s sends a line of more than %d bytes", server, maxLine)
		case err == nil:
			return c.traced(string(line)), nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
		case errors.Is(err, io.EOF):
			err = errorf(Unavailable, "%s closed the connection in the middle of a line", server)
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errorf(Unavailable, "%s said nothing for %v", server, c.options.Timeout)
		default:
			err = errorf(Unavailable, "reading from %s: %w", server, cause(err))
		}
		return "", c.breakOff(err)
	}
}

func (c *Client) traced(line string) string {
	line = strings.TrimSuffix(line, "\n")
	if c.options.Trace != nil {
		fmt.Fprintf(c.options.Trace, "- %s\n", text.Escape(line))
	}
	return line
}

// unexpectedEnd returns the error for a line that is missing. An end of file in
// the middle of an answer becomes an error of kind Unavailable.
func (c *Client) unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return c.breakOff(errorf(Unavailable, "%s closed the connection in the middle of its answer", c.options.Server))
	}
	return err
}
