package cluster

// This file limits the replies of the store: their size, elements and depth.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// The library allocates what the header of a reply announces before it reads the
// reply, and calls itself for each level. So a store, or somebody on the way to it,
// could end the scheduler with a dozen bytes. These limits are for all replies
// between two requests; the largest ones, a thousand lines of news or the replies to
// maxPipeline calls, are far below them.
const (
	maxReplyBytes    = 16 << 20
	maxReplyElements = 1 << 17
	maxReplyDepth    = 16
	maxReplyLine     = 64 << 10 // of a line; strings of any length have a header and are no lines
)

// replyConn is a connection to the store that ends with an error before a reply
// exceeds a limit.
type replyConn struct {
	net.Conn
	limit replyLimit
}

// limitReplies makes a dialer return such connections.
func limitReplies(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &replyConn{Conn: inner}
		// With this method the library finds a connection that the store has closed.
		if raw, ok := inner.(syscall.Conn); ok {
			return struct {
				*replyConn
				syscall.Conn
			}{c, raw}, nil
		}
		return c, nil
	}
}

func (c *replyConn) Write(b []byte) (int, error) {
	c.limit.bytes, c.limit.elements = 0, 0
	return c.Conn.Write(b)
}

func (c *replyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if e := c.limit.read(b[:n]); e != nil {
		_ = c.Close()
		return 0, e
	}
	return n, err
}

// replyLimit follows the format of replies (RESP): a reply is a line that begins
// with its type; after the lines of strings come their bytes, and after the lines of
// lists their elements, which are replies themselves.
type replyLimit struct {
	bytes, elements int    // since the last request
	line            []byte // the beginning of the line
	length          int    // of the line so far
	skip            int    // bytes of a string, with its CR LF, that follow
	open            []int  // how many elements each open list still needs
	err             error
}

// read takes what was read next.
func (l *replyLimit) read(b []byte) error {
	for len(b) > 0 && l.err == nil {
		if l.bytes += min(l.skip, len(b)); l.skip > 0 {
			n := min(l.skip, len(b))
			l.skip, b = l.skip-n, b[n:]
			continue
		}
		part := b
		end := bytes.IndexByte(b, '\n')
		if end >= 0 {
			part = b[:end+1]
		}
		b = b[len(part):]
		l.bytes, l.length = l.bytes+len(part), l.length+len(part)
		if room := maxHeader - len(l.line); room > 0 {
			l.line = append(l.line, part[:min(room, len(part))]...)
		}
		if end >= 0 && l.err == nil {
			l.err = l.header()
			l.line, l.length = l.line[:0], 0
		}
		if l.err == nil && (l.length > maxReplyLine || l.bytes > maxReplyBytes) {
			l.err = errReply
		}
	}
	return l.err
}

// maxHeader is how much of a line is kept: enough for a type and a length.
const maxHeader = 24

var errReply = errors.New("a reply of the store exceeds the limit")

// header takes a whole line.
func (l *replyLimit) header() error {
	kind, n := l.line[0], 0
	aggregate := bytes.IndexByte([]byte("*~>%|"), kind) >= 0
	if aggregate || kind == '$' || kind == '=' || kind == '!' {
		var err error
		n, err = strconv.Atoi(string(bytes.TrimRight(l.line[1:], "\r\n")))
		if err != nil || n < -1 || l.length > maxHeader {
			return fmt.Errorf("the store sent a reply with the header %q", l.line)
		}
	}
	if n > maxReplyBytes {
		return errReply
	}
	switch {
	case !aggregate && n >= 0 && (kind == '$' || kind == '=' || kind == '!'):
		if l.skip = n + len("\r\n"); l.bytes+l.skip > maxReplyBytes {
			return errReply
		}
	case kind == '|' && n <= 0:
		return nil
	case aggregate && n > 0:
		if kind == '%' || kind == '|' {
			n *= 2
		}
		if kind == '|' && len(l.open) > 0 {
			l.open[len(l.open)-1]++ // attributes come before an element and are none
		}
		l.open = append(l.open, n)
		if l.elements += n; l.elements > maxReplyElements || len(l.open) > maxReplyDepth {
			return errReply
		}
		return nil
	}
	// An element is complete, as far as lengths go.
	for len(l.open) > 0 {
		last := len(l.open) - 1
		if l.open[last]--; l.open[last] > 0 {
			break
		}
		l.open = l.open[:last]
	}
	return nil
}
