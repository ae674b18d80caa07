package mailbox

// This file defines the outcome of a delivery: what errors mean for the recipient,
// the result for the scheduler, and the delivery log.

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"zsched/internal/postoffice"
	"zsched/ta"
)

// outcome is the outcome of one delivery. A helper writes it as JSON.
type outcome struct {
	Status ta.Status // OK, Error or Deferred
	Code   string    // enhanced status code, with comment
	Text   string
	// For the delivery log: Before is the size of the mbox before the delivery,
	// Bytes how much was written, and Name where.
	Before, Bytes int64
	Name          string
	// shared says that the message was delivered once for several addresses of the
	// mailbox, and that this is not the first of them.
	shared bool
}

// failure is an error with the status and code that it means for the recipient.
type failure struct {
	status ta.Status
	code   string
	cause  error
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// failed is the outcome for an error. An error that is not known to be final
// defers the recipient.
func failed(err error, fatalQuota bool) outcome {
	out := outcome{Status: ta.Deferred, Code: "4.3.0", Text: strings.ReplaceAll(err.Error(), "\n", "; ")}
	var known *failure
	switch {
	case errors.As(err, &known):
		out.Status, out.Code = known.status, known.code
	case errors.Is(err, syscall.EDQUOT) && fatalQuota:
		out.Status, out.Code = ta.Error, "5.2.2 (over quota)"
	case errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG):
		out.Code = "4.2.2 (over quota)"
	case errors.Is(err, syscall.ENOSPC):
		out.Code = "4.3.1 (disk is full)"
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist):
		out.Code = "4.2.0 (mailbox cannot be used)"
	}
	return out
}

// unusable is the error for a mailbox or file to which we do not deliver because
// of its type, owner or links. A mailbox can be repaired, so its recipient is
// deferred. A file that an address names is refused.
func unusable(file bool, format string, args ...any) error {
	f := &failure{ta.Deferred, "4.2.0 (mailbox cannot be used)", fmt.Errorf(format, args...)}
	if file {
		f.status, f.code = ta.Error, "5.7.1 (not allowed)"
	}
	return f
}

// result is the outcome as a result for the scheduler.
func (o *outcome) result() ta.Result {
	code, reply := o.Code, "250"
	switch o.Status {
	case ta.OK:
		if code == "" {
			code = "2.0.0"
		}
		if o.Text == "" {
			o.Text = "Ok"
		}
	case ta.Error:
		reply = "550"
	default:
		o.Status, reply = ta.Deferred, "450"
	}
	first, _, _ := strings.Cut(o.Text, "\r")
	return ta.Result{Status: o.Status, Text: o.Text, Fields: ta.Fields{
		Code:       code,
		Diagnostic: "x-local; " + reply + " (" + first + ")",
	}}
}

// log appends a line to the delivery log: the message, the size of the mbox
// before, how much was added, and where.
func (a *Agent) log(m *ta.Message, out outcome) {
	if a.Log == "" {
		return
	}
	id := m.File.MessageID
	if id == "" {
		id = m.SpoolID()
	}
	f, err := postoffice.OpenLog(a.Log, 0o644)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %d %d %s\n", id, out.Before, out.Bytes, visible(out.Name))
		_ = f.Close()
	}
	if err != nil && a.Warn != nil {
		a.Warn(fmt.Sprintf("delivery log: %v", err))
	}
}
