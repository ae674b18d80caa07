// Package eintr repeats system calls that a signal interrupted. Package os does
// so by itself; calls of packages syscall and unix do not.
package eintr

import "syscall"

// Retry calls f until its error is not EINTR.
func Retry(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}

// Retry1 is Retry for a call with a result, such as a descriptor or a number
// of bytes.
func Retry1[T any](f func() (T, error)) (T, error) {
	for {
		if v, err := f(); err != syscall.EINTR {
			return v, err
		}
	}
}
