package main

// The verb check: faults of control files that Parse does not find.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// check checks what Parse does not: whether the message file is in its place,
// and whether the control file has everything that agents need.
func check(_ io.Writer, f controlFile) error {
	var wrong []error
	complain := func(offset int64, format string, args ...any) {
		line := 1 + bytes.Count(f.text[:offset], []byte("\n"))
		wrong = append(wrong, fmt.Errorf("%s:%d: %s", f.path, line, fmt.Sprintf(format, args...)))
	}
	if f.Torn >= 0 {
		complain(f.Torn, "the last diagnostic is cut short")
	}
	if f.Name == "" {
		return errors.Join(wrong...) // a trigger file has no message
	}
	if f.Body < 0 {
		complain(0, "no o line: the offset of the body is unknown")
	}
	for i := range f.Recipients {
		if r := &f.Recipients[i]; r.Header < 0 {
			complain(r.Offset, "no header block for %.200q", r.User)
		}
	}
	for _, d := range f.Diagnostics {
		if f.Find(d.Recipient) < 0 {
			complain(d.Offset, "diagnostic of no recipient")
		}
	}
	queue, err := queueOf(f.path)
	switch {
	case err != nil:
		return errors.Join(append(wrong, err)...)
	case queue != "":
		if name := filepath.Base(f.path); name != f.Name {
			complain(0, "the file is named %q and its message file %q", name, f.Name)
		}
		checkMessage(filepath.Join(queue, f.Name), f.Body, func(format string, args ...any) { complain(0, format, args...) })
	}
	return errors.Join(wrong...)
}

// queueOf returns the directory of the message file. For a control file in transport/
// or in its hash directories, that is the directory of the same name below queue/; for
// a file anywhere else it is "".
func queueOf(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	dir, hash := filepath.Dir(path), ""
	for base := filepath.Base(dir); len(base) == 1 && 'A' <= base[0] && base[0] <= 'Z'; base = filepath.Base(dir) {
		hash = filepath.Join(base, hash)
		dir = filepath.Dir(dir)
	}
	if filepath.Base(dir) != "transport" {
		return "", nil
	}
	return filepath.Join(filepath.Dir(dir), "queue", hash), nil
}

func checkMessage(message string, body int64, complain func(format string, args ...any)) {
	info, err := os.Lstat(message)
	switch {
	case err != nil:
		complain("no message file: %v", err)
	case !info.Mode().IsRegular():
		complain("the message file %s is not a regular file", message)
	case info.Size() < body:
		complain("the body starts at byte %d, but the message file has %d bytes", body, info.Size())
	}
}
