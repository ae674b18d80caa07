package header

// Reading: finding the header block in a message.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of the headers that Read accepts. Each field and each line costs time and memory, even one of two
// bytes. There is room for 300 and for twenty more from each of MaxHops hosts, so that a message in
// a loop ends as one.
const (
	MaxSize   = 1 << 20 // bytes
	MaxFields = 5000
	MaxLines  = 20000
)

// MaxHops is the number of Received fields above which a message counts as looping. RFC 5321
// section 6.3 requires at least 100.
const MaxHops = 100

// ErrUnfit marks the errors of Read for a header that cannot be delivered: it is too long, or
// has too many fields or lines or a NUL. Other errors come from reading.
var ErrUnfit = errors.New("the header cannot be delivered")

// Read reads a message up to the end of its header, as the router does: up to
// and including the first empty line, or up to the first line that is not part of a
// header. It returns the header's lines for an m block, without carriage returns; the
// offset of the body for the o line; and a reader for the complete message.
func Read(message io.Reader) (fields string, body int64, complete io.Reader, err error) {
	in := bufio.NewReader(message)
	var seen bytes.Buffer
	var lines strings.Builder
	fieldCount, lineCount := 0, 0
	for {
		start := seen.Len()
		if err := readLine(in, &seen); err != nil {
			return "", 0, nil, fmt.Errorf("read the header: %w", err)
		}
		line := bytes.TrimSuffix(seen.Bytes()[start:], []byte("\n"))
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 {
			body = int64(seen.Len())
			break
		}
		folded := (line[0] == ' ' || line[0] == '\t') && start > 0
		if !folded && !isHeaderLine(line) {
			body = int64(start)
			break
		}
		if lineCount++; !folded {
			fieldCount++
		}
		if seen.Len() > MaxSize {
			return "", 0, nil, fmt.Errorf("%w: it is longer than %d bytes", ErrUnfit, MaxSize)
		}
		if fieldCount > MaxFields {
			return "", 0, nil, fmt.Errorf("%w: it has more than %d fields", ErrUnfit, MaxFields)
		}
		if lineCount > MaxLines {
			return "", 0, nil, fmt.Errorf("%w: it has more than %d lines", ErrUnfit, MaxLines)
		}
		if i := bytes.IndexByte(line, 0); i >= 0 {
			return "", 0, nil, fmt.Errorf("%w: it has a NUL at byte %d", ErrUnfit, start+i)
		}
		lines.Write(line)
		lines.WriteByte('\n')
	}
	return lines.String(), body, io.MultiReader(&seen, in), nil
}

// readLine appends one line to b. It stops within the line once b is longer
// than MaxSize. At the end of the message it appends nothing.
func readLine(in *bufio.Reader, b *bytes.Buffer) error {
	for {
		part, err := in.ReadSlice('\n')
		b.Write(part)
		if err == io.EOF || err == bufio.ErrBufferFull && b.Len() > MaxSize {
			return nil
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// isHeaderLine reports whether a line starts a header field: a name of
// visible characters and a colon, possibly with blanks before it (RFC 5322
// section 4.5).
func isHeaderLine(line []byte) bool {
	name, _, found := bytes.Cut(line, []byte(":"))
	name = bytes.TrimRight(name, " \t")
	for _, b := range name {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return found && len(name) > 0
}
