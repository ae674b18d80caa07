package postoffice

// This file has the records in which the router and the SMTP server say that a reload
// failed, so that the scheduler can show it.

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The files in $POSTOFFICE in which a program says why its last reload failed: the router
// for its tables, and the SMTP server for smtpserver.cf. The mtime is when that was.
const (
	RouterReload = ".router.reload"
	SMTPReload   = ".smtpserver.reload"
)

// maxReloadText bounds what is read of the error, in bytes.
const maxReloadText = 1000

// ReloadRecord writes one of these files.
type ReloadRecord struct {
	Path string

	text string // in the file; "": there is none
}

// Set writes why a reload failed, or removes the file if it succeeded. The time of the
// file is that of the first of several equal failures.
func (r *ReloadRecord) Set(failure error) error {
	text := ""
	if failure != nil {
		if text, _, _ = strings.Cut(failure.Error(), "\n"); text == r.text {
			return nil
		}
	}
	r.text = text
	if text == "" {
		if err := Remove(WorkingDir, r.Path); err != nil {
			return &os.PathError{Op: "remove", Path: r.Path, Err: err}
		}
		return nil
	}
	if err := ReplaceFile(WorkingDir, r.Path+".new", r.Path, []byte(text+"\n")); err != nil {
		return &os.PathError{Op: "write", Path: r.Path, Err: err}
	}
	return nil
}

// FailedReload returns the text of a record in a postoffice, and its time; "" if there
// was no failure.
func FailedReload(postoffice, name string) (text string, at time.Time) {
	path := filepath.Join(postoffice, name)
	info, err := Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", at
	}
	data, err := ReadFile(WorkingDir, path, maxReloadText)
	if err != nil {
		return "", at
	}
	return strings.TrimSpace(string(data)), info.ModTime()
}
