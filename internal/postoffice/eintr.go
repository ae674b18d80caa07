package postoffice

// System calls that a signal interrupted are repeated. Package os does so by itself;
// calls of packages syscall and unix do not.

import "syscall"

// MaxTries bounds the repetitions. Signals do not interrupt a call that often in a row.
// A file system that returns EINTR more often is at fault, and repeating the call for
// ever would keep a processor busy and its worker from all other files.
const MaxTries = 1000

// Retry calls f until its error is not EINTR, at most MaxTries times.
func Retry(f func() error) (err error) {
	for range MaxTries {
		if err = f(); err != syscall.EINTR {
			return err
		}
	}
	return err
}

// Retry1 is Retry for a call with a result, such as a descriptor or a number
// of bytes.
func Retry1[T any](f func() (T, error)) (v T, err error) {
	for range MaxTries {
		if v, err = f(); err != syscall.EINTR {
			return v, err
		}
	}
	return v, err
}
