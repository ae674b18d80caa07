package postoffice

// Submissions: which files of router/ the router takes. Others that look into router/
// use the same rules, so that they count no file that the router never looks at.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// IsSubmission reports whether a base name in router/ is one under which a program
// leaves a complete submission: it begins with a digit. So do the names of control files
// in transport/.
func IsSubmission(base string) bool { return base != "" && '0' <= base[0] && base[0] <= '9' }

// IsHashDir reports whether a base name is that of a hash directory: a capital letter.
func IsHashDir(base string) bool { return len(base) == 1 && 'A' <= base[0] && base[0] <= 'Z' }

// EachSubmission calls f with each submission in router/ of a postoffice, and in those of
// its hash directories that the router reads, until f returns false. name is that below
// router/. Only regular files are submissions. A directory that does not exist is empty. After
// an error, it goes on with what it can read.
func EachSubmission(postoffice string, f func(name string, info os.FileInfo) bool) error {
	return EachEntry(postoffice, f, func(string) bool { return true })
}

// EachEntry is EachSubmission that also calls stray with the path of each entry which is no
// submission and has not the name of a hash directory: a temporary file, or something strange.
// Any user can make a million links in router/, so such an entry is not examined if the
// directory says what it is.
func EachEntry(postoffice string, f func(name string, info os.FileInfo) bool, stray func(path string) bool) error {
	top := filepath.Join(postoffice, "router")
	var dirs []string
	more := true
	var failed error
	visit := func(dir string, hashDirs bool) error {
		err := eachName(WorkingDir, dir, func(name string, kind uint8) bool {
			path := dir + "/" + name
			if hashDirs && IsHashDir(name) {
				trusted, err := IsTrustedDir(path)
				if trusted {
					dirs = append(dirs, path)
				}
				failed = errors.Join(failed, err)
				return true
			}
			if !IsSubmission(name) || kind != unix.DT_REG && kind != unix.DT_UNKNOWN {
				more = stray(path)
				return more
			}
			switch info, err := Lstat(path); {
			case err == nil && info.Mode().IsRegular():
				more = f(strings.TrimPrefix(path, top+"/"), info)
			case err == nil:
				more = stray(path)
			case !errors.Is(err, os.ErrNotExist):
				failed = errors.Join(failed, err)
			}
			return more
		})
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	}
	err := visit(top, true)
	for _, dir := range dirs {
		if more {
			err = errors.Join(err, visit(dir, false))
		}
	}
	return errors.Join(err, failed)
}
