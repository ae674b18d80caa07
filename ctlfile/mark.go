package ctlfile

import "errors"

// MaxPID is the greatest pid that fits a lock; it stands for all beyond it.
const MaxPID = 999999

// Swap changes the tag of the line at offset from one state to another.
func Swap(fd int, offset int64, from, to Tag, pid int) (bool, error) {
	return false, errors.ErrUnsupported
}

// AppendDiagnostic appends d lines in one write and waits until they are on
// disk.
func AppendDiagnostic(fd int, diagnostics ...Diagnostic) error { return errors.ErrUnsupported }
