package ctlfile

import "errors"

// Parse reads a control file.
func Parse(data []byte) (*File, error) { return nil, errors.ErrUnsupported }
