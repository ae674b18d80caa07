package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"zsched/ta"
)

// outcome is what became of one delivery. A helper sends it as JSON.
type outcome struct {
	Status ta.Status // OK, Error or Deferred
	Code   string    // enhanced status code, with comment
	Text   string
	// Before is the size of the mbox before, Bytes what was written, and Name
	// where to: for the delivery log.
	Before, Bytes int64
	Name          string
	// Cvt is what was done to the message, in the words of the system's log.
	Cvt string
}

// failure is an error that knows what it means for the recipient.
type failure struct {
	status ta.Status
	code   string
	cause  error
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

// failed is the outcome that an error means. What is not known to be final is
// tried again.
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

// unfit is the error of a file that is not what it should be. A user's
// mailbox can be mended; what an address names is refused.
func unfit(file bool, format string, args ...any) error {
	f := &failure{ta.Deferred, "4.2.0 (mailbox cannot be used)", fmt.Errorf(format, args...)}
	if file {
		f.status, f.code = ta.Error, "5.7.1 (not allowed)"
	}
	return f
}

// result is the outcome as the server takes it.
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
