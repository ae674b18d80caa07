package smtpserver

// The text of a message: DATA and BDAT, and how it comes into the queue's file.

import (
	"bytes"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// maxTextLine bounds the length of a line of a message in bytes. RFC 5321 section
	// 4.5.3.1.6 requires at least 1000.
	maxTextLine = 64 << 10
	// minRate is the slowest transfer of a message that is tolerated after
	// Options.DataTimeout, in bytes a second.
	minRate = 1024
	// checkEvery is how many bytes of a message are written between two checks of
	// the free disk space.
	checkEvery = 64 << 10
)

// text is a message that comes in. It is written once, into a file of the queue, with LF as
// the end of a line. A message may not have a bare CR or LF, because another server may take
// one for the end of the message: only CRLF ends a line, and only CRLF, dot, CRLF ends a
// message after DATA.
type text struct {
	file     *incoming // nil if it could not be made, or is given up
	envelope int64     // bytes of the file before the text
	w        interface {
		io.Writer
		io.ByteWriter
	}
	dots    bool  // after DATA: a dot at the beginning of a line is removed, and a lone one ends the message
	maxSize int64 // of the message in bytes
	size    int64 // of what has come, with the CRLFs
	ended   bool  // the line with a lone dot has come
	err     error // why the message is refused: what still comes is read, but not written

	line int  // bytes of the incomplete line
	dot  bool // a dot was removed from it
	cr   bool // the last byte was a CR
}

// write takes the next part of the message, and returns how many bytes of it belong to the
// message. The only error is errBareNewline.
func (t *text) write(p []byte) (n int, err error) {
	for n < len(p) && !t.ended {
		if t.dots && p[n] == '.' && t.line == 0 && !t.dot && !t.cr {
			t.dot = true
			n++
			continue
		}
		line, _, complete := bytes.Cut(p[n:], []byte("\n"))
		cr := bytes.IndexByte(line, '\r')
		switch {
		case t.cr && (!complete || len(line) > 0), // a CR before something else
			cr >= 0 && cr != len(line)-1,
			complete && cr < 0 && !t.cr: // an LF after something else
			return n, errBareNewline
		}
		n += len(line)
		if cr >= 0 {
			line = line[:cr]
		}
		t.add(line)
		if t.cr = cr >= 0 && !complete; complete {
			n++
			t.endLine()
		}
	}
	return n, nil
}

// add adds a part of a line.
func (t *text) add(part []byte) {
	t.line += len(part)
	t.size += int64(len(part))
	if t.line > maxTextLine {
		t.fail(errLongLine)
	}
	if t.size > t.maxSize {
		t.fail(errTooLarge)
	}
	if t.err == nil {
		_, err := t.w.Write(part)
		t.fail(err)
	}
}

func (t *text) endLine() {
	if t.dot && t.line == 0 {
		t.ended = true
		return
	}
	t.size += 2
	t.line, t.dot = 0, false
	if t.err == nil {
		t.fail(t.w.WriteByte('\n'))
	}
}

// fail records the first reason to refuse the message, and gives up its file.
func (t *text) fail(err error) {
	if t.err == nil && err != nil {
		t.err = err
		t.file.discard()
		t.file = nil
	}
}

// end completes the last line.
func (t *text) end() error {
	if t.cr {
		return errBareNewline
	}
	if t.line > 0 {
		t.endLine()
	}
	return t.err
}

// data answers DATA.
func (s *session) data(string) error {
	switch {
	case s.mail == nil:
		return errNoMail
	case s.mail.text != nil:
		return errNested
	case len(s.mail.To) == 0:
		return errNoRecipient
	}
	s.reply("354 End the message with a line that has only a dot")
	s.beginText(true)
	return s.finish(s.receive(s.mail.text, math.MaxUint64))
}

// bdat answers BDAT (RFC 3030). What is said to be a chunk is read in any case, so that it is
// never read as commands.
func (s *session) bdat(arg string) error {
	words := strings.FieldsFunc(arg, func(r rune) bool { return r == ' ' })
	last := len(words) == 2 && strings.EqualFold(words[1], "LAST")
	if len(words) != 1 && !last {
		return errBadChunk
	}
	size, err := strconv.ParseUint(words[0], 10, 63)
	if err != nil {
		return errBadChunk
	}
	if s.mail == nil || len(s.mail.To) == 0 {
		if err := s.receive(nil, size); err != nil {
			return err
		}
		if s.mail == nil {
			return errNoMail
		}
		return errNoRecipient
	}
	if s.mail.text == nil {
		s.beginText(false)
	}
	err = s.receive(s.mail.text, size)
	if last || err != nil || s.mail.text.err != nil {
		return s.finish(err)
	}
	if size >= minRate { // a large message may have many chunks
		s.commands--
	}
	s.reply("250 2.0.0 %d bytes received", size)
	return nil
}

// beginText makes the file of a message and writes its envelope.
func (s *session) beginText(dots bool) {
	t := &text{dots: dots, maxSize: s.o.MaxSize}
	s.mail.text = t
	envelope, err := s.mail.Envelope()
	if err == nil {
		t.file, err = s.server.queue.create()
	}
	if err != nil {
		t.err = err
		return
	}
	t.w, t.envelope = t.file.w, int64(len(envelope))
	_, err = t.w.Write(envelope)
	t.fail(err)
}

// receive reads a message to its end, or n bytes of it. Without a text they are dropped. The
// time for them is Options.DataTimeout and a second for each minRate bytes. The error is a
// refusal or errEnded.
func (s *session) receive(t *text, n uint64) error {
	began, received, checked := time.Now(), uint64(0), int64(0)
	for received < n && (t == nil || !t.ended) {
		if s.in.Buffered() == 0 {
			deadline := began.Add(s.o.DataTimeout + time.Duration(received/minRate)*time.Second)
			if idle := time.Now().Add(s.o.CommandTimeout); idle.Before(deadline) {
				deadline = idle
			}
			err := s.wait(deadline, func() error {
				_, err := s.in.Peek(1)
				return err
			})
			if err != nil {
				return err
			}
		}
		part, _ := s.in.Peek(int(min(n-received, uint64(s.in.Buffered()))))
		taken := len(part)
		if t != nil {
			var err error
			if taken, err = t.write(part); err != nil {
				return err
			}
			if t.size-checked >= checkEvery {
				checked = t.size
				t.fail(s.moreText(checkEvery))
			}
		}
		_, _ = s.in.Discard(taken)
		received += uint64(taken)
	}
	return nil
}

// moreText takes room on the disk for a part of the message that comes in. Its share keeps clients who never
// end their messages from filling the disk.
func (s *session) moreText(size int64) error {
	m, flow := s.mail, s.server.config.Load().flow
	if err := flow.admit(size); err != nil {
		return err
	}
	if !s.server.files.take(m.source, size, func(int64) int64 { return flow.room() }, false) {
		return errFull
	}
	m.disk += size
	return nil
}

// finish gives a message to the router and replies when it is on disk, or refuses it because
// of an error.
func (s *session) finish(err error) error {
	defer s.reset()
	m, t := s.mail, s.mail.text
	for _, to := range m.To[:min(len(m.To), maxLoggedRecipients)] {
		s.about.to = append(s.about.to, cutText(to.Address.User))
	}
	if err == errEnded {
		return err // the client is gone, and what it sent of the message is dropped
	}
	if err == nil {
		err = t.end()
	}
	if err == nil {
		err = s.server.queue.checkHeader(t.file, t.envelope)
	}
	if err == nil {
		err = s.stillValid()
	}
	if err == nil {
		file := t.file
		t.file = nil // commit takes it
		began := time.Now()
		if err = s.server.queue.commit(file); err == nil {
			s.messages++
			s.server.count(func(c *Counts) {
				c.Messages++
				c.Recipients += len(m.To)
				c.Bytes += t.size
				c.CommitTime += time.Since(began)
			})
			s.line().Str("id", file.id).Int("recipients", len(m.To)).Int64("bytes", t.size).Str("with", m.With).Msg("accepted")
			s.quietAt.Store(time.Now().UnixNano())
			s.errors, s.commands = 0, 0
			s.reply("250 2.0.0 OK: queued as %s", file.id)
			return nil
		}
	}
	s.about.err = err
	return refusalOf(err)
}
