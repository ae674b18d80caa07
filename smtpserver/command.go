package smtpserver

// Commands: which ones the connection refuses or answers itself, and which ones it
// passes to go-smtp.

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"zsched/ctlfile"
)

// nextCommand makes the next command for go-smtp pending.
func (c *connection) nextCommand() error {
	for {
		line, err := c.readLine()
		if err != nil {
			return err
		}
		if c.code == 334 { // the client's part of AUTH
			c.give(line)
			return nil
		}
		if c.commands++; c.commands > c.config.o.MaxRecipients+extraCommands {
			return c.hangUp("421 4.7.0 Too many commands without a message")
		}
		if c.errors > c.maxErrors() {
			return c.hangUp("421 4.7.0 Too many errors")
		}
		forward, err := c.command(line)
		if err != nil {
			return err
		}
		if forward {
			return nil
		}
	}
}

func (c *connection) maxErrors() int {
	if c.client.trusted {
		return c.config.o.MaxRecipients + extraCommands
	}
	return c.config.o.MaxErrors
}

func (c *connection) give(line string) {
	c.pending, c.code = []byte(line+"\r\n"), 0
}

// readLine reads a command line without its end. It sends all pending replies before
// it waits.
func (c *connection) readLine() (string, error) {
	if c.in.Buffered() == 0 && c.flush() != nil {
		return "", c.end(io.EOF)
	}
	now := time.Now()
	deadline := now.Add(c.config.o.CommandTimeout)
	if total := c.quietAt.Add(c.config.o.SessionTimeout); total.Before(deadline) {
		deadline = total
	}
	c.idle.Store(true)
	_ = c.Conn.SetReadDeadline(deadline)
	if c.stopping.Load() {
		return "", c.hangUp("421 4.3.2 The server is stopping")
	}
	line, err := c.in.ReadSlice('\n')
	c.idle.Store(false)
	switch {
	case err == nil:
		return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
	case errors.Is(err, bufio.ErrBufferFull):
		return "", c.hangUp("500 5.5.2 Line too long")
	case c.stopping.Load():
		return "", c.hangUp("421 4.3.2 The server is stopping")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "", c.hangUp("421 4.4.2 Timeout")
	}
	return "", c.end(io.EOF)
}

// command handles a command line, or forwards it to go-smtp.
func (c *connection) command(line string) (forward bool, err error) {
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		c.reply("500 5.5.2 Control characters in a command")
		return false, nil
	}
	verb, arg, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	if c.greeted == "" && slices.Contains([]string{"MAIL", "RCPT", "DATA", "BDAT", "AUTH", "ETRN"}, verb) {
		if verb == "BDAT" {
			return false, c.hangUp("503 5.5.1 Say EHLO first")
		}
		c.reply("503 5.5.1 Say EHLO first")
		return false, nil
	}
	if c.chunks > 0 && !slices.Contains([]string{"BDAT", "NOOP", "QUIT"}, verb) {
		// go-smtp may give the result of an aborted message to the next one.
		return false, c.hangUp("421 4.5.0 The message was aborted")
	}
	switch verb {
	case "STARTTLS":
		return false, c.startTLS(arg)
	case "ETRN":
		c.reply(c.etrn(strings.TrimSpace(arg)))
		return false, nil
	case "XCLIENT":
		c.reply(c.xclient(arg))
		return false, nil
	case "MAIL":
		var ok bool
		if line, ok = c.cutDeliverBy(line); !ok {
			c.reply("501 5.5.4 BY takes seconds and a mode, such as BY=3600;R")
			return false, nil
		}
		if line, ok = c.cutSize(line); !ok {
			c.reply("552 5.3.4 Message too large")
			return false, nil
		}
	case "RCPT":
		line = c.completePostmaster(line)
	case "BDAT":
		if !c.beginChunk(arg) {
			return false, c.hangUp("501 5.5.4 BDAT takes a size and optionally LAST")
		}
		if c.chunks > 0 && c.chunks+int64(c.chunk) > c.config.o.MaxSize {
			return false, c.hangUp("552 5.3.4 Message too large")
		}
	}
	c.verb = verb
	c.give(line)
	return true, nil
}

// beginChunk records how many bytes follow a BDAT command. It has to refuse every
// command that go-smtp would refuse without reading these bytes.
func (c *connection) beginChunk(arg string) bool {
	words := strings.Fields(arg)
	if len(words) == 0 || len(words) > 2 || len(words) == 2 && !strings.EqualFold(words[1], "LAST") {
		return false
	}
	size, err := strconv.ParseUint(words[0], 10, 32)
	if err != nil {
		return false
	}
	c.chunk, c.last, c.began, c.received = size, len(words) == 2, time.Now(), 0
	return true
}

// completePostmaster adds a domain to RCPT TO:<postmaster> (RFC 5321 section 4.1.1.3):
// go-smtp refuses an address without one.
func (c *connection) completePostmaster(line string) string {
	const address = "<postmaster>"
	at := strings.Index(strings.ToLower(line), address)
	if at < 0 || strings.IndexByte(line, '<') != at {
		return line
	}
	return line[:at+len(address)-1] + "@" + c.config.o.postmasterDomain() + line[at+len(address)-1:]
}

// cutDeliverBy removes the BY parameter (RFC 2852) from a MAIL command and records its
// value, because go-smtp accepts it only for RCPT. ok is false if the value is invalid.
func (c *connection) cutDeliverBy(line string) (rest string, ok bool) {
	c.deliverBy = ""
	rest, values := cutParameter(line, "BY")
	if len(values) == 0 {
		return line, true
	}
	by := ctlfile.ParseDeliverBy("BY=" + values[0])
	_, mode, _ := strings.Cut(values[0], ";")
	if !by.Given || by.Return && by.After <= 0 || len(mode) > 1 && !strings.EqualFold(mode[1:], "T") || len(values) > 1 {
		return "", false
	}
	c.deliverBy = strings.ToUpper(values[0])
	return rest, true
}

// cutSize removes the SIZE parameter (RFC 1870) from a MAIL command if its value has more
// than 32 bits, which go-smtp does not read. ok is false if such a message is too large.
func (c *connection) cutSize(line string) (rest string, ok bool) {
	rest, values := cutParameter(line, "SIZE")
	if len(values) != 1 || len(values[0]) > 20 {
		return line, true
	}
	size, err := strconv.ParseUint(values[0], 10, 64)
	if size <= math.MaxUint32 || err != nil && !errors.Is(err, strconv.ErrRange) {
		return line, true
	}
	return rest, err == nil && size <= uint64(c.config.o.MaxSize)
}

// cutParameter removes the parameters of a name from a MAIL command and returns their
// values.
func cutParameter(line, name string) (rest string, values []string) {
	from := pathEnd(line)
	for at, word := from, ""; at < len(line); at += len(word) {
		if line[at] == ' ' || line[at] == '\t' {
			word = line[at : at+1]
			continue
		}
		word, _, _ = strings.Cut(line[at:], " ")
		if given, value, _ := strings.Cut(word, "="); strings.EqualFold(given, name) {
			values = append(values, value)
			line = line[:at] + line[at+len(word):]
			word = ""
		}
	}
	return strings.TrimRight(line, " "), values
}

// pathEnd returns the index after the path of a MAIL or RCPT command, whose local part
// may be quoted.
func pathEnd(line string) int {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case quoted && line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case line[i] == '>' && !quoted:
			return i + 1
		}
	}
	return len(line)
}

// startTLS answers STARTTLS (RFC 3207). The client has to greet again after it.
func (c *connection) startTLS(arg string) error {
	switch {
	case arg != "":
		c.reply("501 5.5.4 STARTTLS takes no parameter")
		return nil
	case c.config.o.TLS == nil || c.tls() != nil:
		c.reply("503 5.5.1 TLS is not available now")
		return nil
	case c.in.Buffered() > 0:
		return c.hangUp("554 5.5.1 Wait for the answer to STARTTLS")
	}
	c.reply("220 2.0.0 Ready to start TLS")
	if err := c.flush(); err != nil {
		return c.end(err)
	}
	conn := tls.Server(c.Conn, c.config.o.TLS)
	_ = c.Conn.SetDeadline(time.Now().Add(handshakeTimeout))
	if err := conn.Handshake(); err != nil {
		c.config.o.Log.Info().Stringer("client", c.client).Err(err).Msg("TLS handshake")
		return c.end(io.EOF)
	}
	c.use(conn)
	c.greeted = ""
	return nil
}

func (c *connection) mayXCLIENT() bool {
	addr := remoteAddr(c.Conn)
	for _, prefix := range c.config.o.XCLIENT {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// xclient answers XCLIENT with ADDR, Postfix's command with which a test or a proxy
// says who the client is.
func (c *connection) xclient(arg string) string {
	if !c.mayXCLIENT() {
		return "550 5.7.1 XCLIENT is not allowed for this client"
	}
	for word := range strings.FieldsSeq(arg) {
		name, value, _ := strings.Cut(word, "=")
		if !strings.EqualFold(name, "ADDR") {
			continue
		}
		if len(value) > 5 && strings.EqualFold(value[:5], "IPV6:") {
			value = value[5:]
		}
		addr, err := netip.ParseAddr(value)
		if err != nil {
			return "501 5.5.4 Not an address"
		}
		c.client = client{addr: addr.Unmap(), trusted: c.config.o.trusts(addr.Unmap())}
		c.greeted = ""
		return "220 " + c.config.o.Hostname + " ESMTP"
	}
	return "501 5.5.4 XCLIENT takes ADDR="
}

// etrn answers ETRN (RFC 1985): the scheduler tries a host's mail now.
func (c *connection) etrn(host string) string {
	host = strings.ToLower(strings.TrimLeft(host, "@"))
	switch {
	case !c.client.trusted:
		return "459 4.7.1 ETRN is not allowed for this client"
	case host == "":
		return "501 5.5.4 ETRN takes a host"
	case !isHost(host):
		return "501 5.5.4 Not a host's name"
	case !c.server.triggers.Allow(host, time.Now()):
		return "250 2.0.0 Queuing was started for " + host + " a moment ago"
	}
	if err := c.server.queue.trigger(host, c.client.String()); err != nil {
		c.config.o.Log.Error().Err(err).Str("host", host).Msg("ETRN")
		return "458 4.3.0 The queue cannot be started now"
	}
	return "250 2.0.0 Queuing started for " + host
}

// isHost reports whether s consists of characters of a host's name and begins with a
// letter or digit.
func isHost(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if letter := c >= 'a' && c <= 'z' || s[i] >= '0' && s[i] <= '9'; !letter && (i == 0 || s[i] != '.' && s[i] != '-') {
			return false
		}
	}
	return len(s) > 0 && len(s) < 256
}
