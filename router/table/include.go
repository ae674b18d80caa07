package table

// Include: reading the table of aliases and its :include: files. Programs that they name run
// with the privilege of the table's owner, so nobody else but root may be able to write or
// replace them.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// anybody stands for the owner of a table that is not known yet.
const anybody = -1

// maxLinks is how many symbolic links a path may have.
const maxLinks = 20

// readFile reads the table of aliases, or a file that it includes. owner is the user to whom
// the table belongs; an included file must belong to the same user. Errors do not begin with
// the path.
func readFile(path string, owner int) (text string, uid int, err error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", 0, err
	}
	if owner == anybody {
		info, err := os.Stat(absolute)
		if err != nil {
			return "", 0, err
		}
		owner = ownerOf(info)
	}
	file, err := resolve(absolute, owner)
	if err != nil {
		return "", 0, err
	}
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || ownerOf(info) != owner {
		return "", 0, errors.Join(err, fmt.Errorf("the file does not belong to user %d, the owner of the table", owner))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err == nil && len(data) > maxTable {
		err = fmt.Errorf("longer than %d bytes", maxTable)
	}
	return string(data), owner, err
}

// resolve returns the path without symbolic links of the regular file at an absolute path. It
// goes from the root down and accepts only what root and the owner alone can replace, so what
// it has accepted stays as it is.
func resolve(path string, owner int) (string, error) {
	at, rest, links := "/", components(path), 0
	sticky := false // others can make names in the directory above, and cannot remove those there
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		isDir, isLink := info.IsDir(), info.Mode()&os.ModeSymlink != 0
		open := !isLink && info.Mode().Perm()&0o022 != 0
		switch uid := ownerOf(info); {
		case uid != 0 && uid != owner && uid != os.Geteuid(): // this program's user can do what it does
			return "", fmt.Errorf("%s belongs to user %d; only root and the owner of the table, user %d, may be able to change it", at, uid, owner)
		case sticky && !isDir || open && !(isDir && info.Mode()&os.ModeSticky != 0):
			return "", fmt.Errorf("others than root and the owner of the table can write or replace %s", at)
		}
		sticky = isDir && open
		if isLink {
			if links++; links > maxLinks {
				return "", syscall.ELOOP
			}
			target, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			at, rest = filepath.Dir(at), append(components(target), rest...)
			if filepath.IsAbs(target) {
				at = "/"
			}
		}
		switch {
		case len(rest) > 0:
			at, rest = filepath.Join(at, rest[0]), rest[1:]
		case !info.Mode().IsRegular():
			return "", errors.New("not a regular file")
		default:
			return at, nil
		}
	}
}

// components splits a path at its slashes.
func components(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

func ownerOf(info os.FileInfo) int { return int(info.Sys().(*syscall.Stat_t).Uid) }
