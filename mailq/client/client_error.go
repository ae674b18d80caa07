package client

import (
	"errors"
	"fmt"
)

// Fault is what kind of mishap ended a dialogue, as an exit code needs it.
type Fault int

const (
	// Unavailable: nobody answers there, or the server fell silent.
	Unavailable Fault = iota + 1
	// Refused: the server does not take the login, or not this command from it.
	Refused
	// Garbled: what came is not MAILQ, or ended in the middle.
	Garbled
	// NotDone: the server understood and would have, but there is no such
	// message, say.
	NotDone
)

// ClientError is an error of a dialogue with a server.
type Error struct {
	Fault Fault
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// FaultOf is the Fault of an error that a Client returned, or 0 for an error
// of the caller's own.
func FaultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return 0
}

func fault(f Fault, format string, args ...any) error {
	return &Error{f, fmt.Errorf(format, args...)}
}
