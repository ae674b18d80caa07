package main

// Submitting: writing the message on standard input as a submission into router/.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"os"
	"strings"

	"zsched/ctlfile"
	"zsched/internal/header"
	"zsched/internal/postoffice"
	"zsched/internal/zenv"
	"zsched/queue"
)

// submit submits a message. When it returns nil, the message and its name in router/
// are on disk.
func (o *options) submit(env *zenv.File, operands []string, hasFrom bool, stdin io.Reader) error {
	if len(operands) == 0 && !o.recipient {
		return exitf(exitUsage, "no recipient")
	}
	s, login, err := o.submission(hasFrom)
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	s.By = login + "@" + host
	in := &input{in: bufio.NewReaderSize(stdin, 64<<10), dots: o.dots}
	if in.max, err = env.RouterMaxSize(); err != nil {
		return exit{exitConfig, err}
	}
	text, offset, whole, err := header.Read(in)
	switch {
	case in.failed != nil:
		return in.exit()
	case err != nil:
		return exit{exitData, err}
	}
	fields := header.Split(text)
	to, err := o.recipients(operands, fields)
	if err != nil {
		return err
	}
	dsn := ""
	if o.notify != "" {
		dsn = "NOTIFY=" + strings.ToUpper(o.notify)
	}
	for _, address := range to {
		s.To = append(s.To, &ctlfile.Recipient{Address: ctlfile.Address{User: address}, DSN: dsn})
	}
	fields = fields.Without("Bcc", "Resent-Bcc")
	if o.fullName != "" && !fields.Has("From") {
		from := fromField(o.fullName, s, login, env.Value("ORGDOMAIN"), host)
		fields, in.size = append(fields, from), in.size+int64(len(from))
	}
	s.Header = fields.String()
	if _, err := io.CopyN(io.Discard, whole, offset); err != nil {
		return exitf(exitIO, "read the message: %w", err)
	}
	return o.give(env, s, whole, in)
}

// submission returns the envelope that the command line asks for, without recipients,
// and the user's login name.
func (o *options) submission(hasFrom bool) (*queue.Submission, string, error) {
	login := queue.LoginName(os.Getuid())
	s := &queue.Submission{BodyType: strings.ToUpper(o.bodyType)}
	s.From.User = login
	switch {
	case hasFrom && (o.from == "" || o.from == "<>"):
		s.From = ctlfile.Address{Channel: "error", User: "<>"}
	case hasFrom:
		list, err := header.AddressList(o.from)
		if err != nil || len(list) != 1 || !queue.PlainAddress(list[0]) {
			return nil, "", exitf(exitData, "sender %.200q is not an address", o.from)
		}
		s.From.User = list[0]
	}
	if s.BodyType != "" && s.BodyType != "7BIT" && s.BodyType != "8BITMIME" {
		return nil, "", exitf(exitUsage, "-B %.50q is neither 7BIT nor 8BITMIME", o.bodyType)
	}
	switch s.Ret = strings.ToUpper(o.ret); s.Ret {
	case "", "HDRS", "FULL":
	default:
		return nil, "", exitf(exitUsage, "-R %.50q is neither hdrs nor full", o.ret)
	}
	if s.EnvID = ctlfile.EncodeXtext(o.envID); len(s.EnvID) > 100 {
		return nil, "", exitf(exitUsage, "-V is longer than the 100 bytes of RFC 3461")
	}
	if o.notify != "" {
		words := strings.Split(strings.ToUpper(o.notify), ",")
		for _, w := range words {
			if w != "NEVER" && w != "SUCCESS" && w != "FAILURE" && w != "DELAY" || w == "NEVER" && len(words) > 1 {
				return nil, "", exitf(exitUsage, "-N %.50q is neither never nor a list of success, failure and delay", o.notify)
			}
		}
	}
	return s, login, nil
}

// recipients returns the operands and, with -t, the recipients in the header.
func (o *options) recipients(operands []string, fields header.Fields) ([]string, error) {
	var to []string
	for _, operand := range operands {
		list, err := header.AddressList(operand)
		if err != nil {
			return nil, exit{exitData, err}
		}
		to = append(to, list...)
	}
	if o.recipient {
		names := []string{"To", "Cc", "Bcc"}
		if resent := []string{"Resent-To", "Resent-Cc", "Resent-Bcc"}; fields.Has(resent...) {
			names = resent
		}
		list, err := fields.Addresses(names...)
		if err != nil {
			return nil, exit{exitData, err}
		}
		to = append(to, list...)
	}
	if len(to) == 0 {
		return nil, exitf(exitData, "no recipient")
	}
	for _, address := range to {
		if !queue.PlainAddress(address) {
			return nil, exitf(exitData, "recipient %.200q: %w", address, queue.ErrNotPlain)
		}
	}
	return to, nil
}

// fromField returns the From field for a message that has none.
func fromField(name string, s *queue.Submission, login, domain, host string) string {
	address := s.From.User
	if s.From.Channel == "error" {
		address = login
	}
	if !strings.Contains(address, "@") {
		if domain == "" {
			domain = host
		}
		address += "@" + domain
	}
	return "From: " + (&mail.Address{Name: name, Address: address}).String() + "\n"
}

// give writes the submission and gives it to the router.
func (o *options) give(env *zenv.File, s *queue.Submission, body io.Reader, in *input) error {
	office := env.Value("POSTOFFICE")
	file, err := s.Write(office, "sendmail-", body)
	switch {
	case in.failed != nil:
		return in.exit()
	case errors.Is(err, queue.ErrNotPlain):
		return exit{exitData, err}
	case err != nil:
		return withCode(err)
	}
	// Now the message is on the disk, whatever its size was to be.
	if err := postoffice.ForArrivals.Check(office); err != nil {
		return withCode(errors.Join(err, postoffice.RemovePath(file)))
	}
	r := queue.Router{Postoffice: office, Levels: env.RouterLevels(), Notify: env.Value("ROUTERNOTIFY")}
	name, err := r.Give(file)
	if err == nil {
		return nil
	}
	if name == "" {
		_ = postoffice.RemovePath(file)
		return withCode(err)
	}
	return exitf(exitTempFail, "the message is in router/%s, but may not survive a crash: %w", name, err)
}

// input reads the message as programs write it: up to a line with only a dot, with LF
// or CR LF at line ends, and perhaps with the "From " line of a mailbox before the
// header. It returns LF at line ends.
type input struct {
	in     *bufio.Reader
	dots   bool  // a line with only a dot does not end the message
	max    int64 // bytes of the message; 0: no limit
	size   int64 // bytes that were returned
	failed error // of reading

	begun   bool
	midLine bool // the last part had no line end
	rest    []byte
	ended   bool
}

// errTooLarge is the error of reading for a message of more than max bytes.
var errTooLarge = errors.New("the message is larger than ROUTERMAXSIZE")

// exit returns failed with its exit code.
func (i *input) exit() error {
	if errors.Is(i.failed, errTooLarge) {
		return exit{exitData, i.failed}
	}
	return exitf(exitIO, "read the message: %w", i.failed)
}

func (i *input) Read(p []byte) (int, error) {
	for len(i.rest) == 0 {
		if i.ended {
			return 0, io.EOF
		}
		i.next()
		if i.failed != nil {
			return 0, i.failed
		}
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	if i.size += int64(n); i.max > 0 && i.size > i.max {
		i.failed = errTooLarge
		return 0, i.failed
	}
	return n, nil
}

// next reads the next line, or a part of a long one.
func (i *input) next() {
	line, err := i.in.ReadSlice('\n')
	startsLine := !i.midLine
	i.midLine = errors.Is(err, bufio.ErrBufferFull)
	switch {
	case err == io.EOF:
		i.ended = true
	case err != nil && !i.midLine:
		i.failed = fmt.Errorf("standard input: %w", err)
		return
	}
	if i.midLine && line[len(line)-1] == '\r' {
		// The line end may follow.
		_ = i.in.UnreadByte()
		line = line[:len(line)-1]
	}
	if bytes.HasSuffix(line, []byte("\r\n")) {
		line[len(line)-2] = '\n'
		line = line[:len(line)-1]
	}
	if startsLine && !i.dots && (string(line) == ".\n" || i.ended && string(line) == ".") {
		i.ended = true
		return
	}
	first := !i.begun
	i.begun = true
	if first && startsLine && !i.midLine && bytes.HasPrefix(line, []byte("From ")) {
		return
	}
	i.rest = line
}
