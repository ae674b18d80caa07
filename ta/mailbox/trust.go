package mailbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/internal/syncdir"
	"zsched/ta"
)

// What root may do in a directory of mailboxes is decided by who else can
// change it. A directory that only root can write to, reached through none
// that others can, is the administrator's: there root makes the mailbox that
// is missing, owner and all, in one step. In one that a group may write to,
// nothing is done by root, but the helper is lent that group. Everywhere else
// the user is on his own.

// errDistrusted: somebody but root can change what is at a path.
var errDistrusted = errors.New("others than root can change it")

// trusted finds the directory that a path leads to, and says who besides root
// may write in it by returning its state. The error is errDistrusted if on the
// way there others than root have a say; then nothing of theirs was looked at.
func trusted(dir string) (real string, st unix.Stat_t, err error) {
	real = "/"
	rest := parts(dir)
	if err := unix.Lstat(real, &st); err != nil {
		return real, st, &os.PathError{Op: "stat", Path: real, Err: err}
	}
	for links := 0; ; {
		if st.Uid != 0 || st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 ||
			len(rest) > 0 && st.Mode&0o020 != 0 && st.Mode&unix.S_ISVTX == 0 && st.Gid != 0 {
			return real, st, fmt.Errorf("%q: %w", real, errDistrusted)
		}
		if len(rest) == 0 {
			return real, st, nil
		}
		next := filepath.Join(real, rest[0])
		rest = rest[1:]
		if err := unix.Lstat(next, &st); err != nil {
			return next, st, &os.PathError{Op: "stat", Path: next, Err: err}
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			real = next
		case unix.S_IFLNK:
			target, err := os.Readlink(next)
			if links++; err != nil || links > 40 || st.Uid != 0 {
				return next, st, fmt.Errorf("%q: %w", next, errors.Join(err, errDistrusted))
			}
			if filepath.IsAbs(target) {
				real = "/"
			}
			rest = append(parts(target), rest...)
			if err := unix.Lstat(real, &st); err != nil {
				return real, st, &os.PathError{Op: "stat", Path: real, Err: err}
			}
		default:
			return next, st, &os.PathError{Op: "open", Path: next, Err: unix.ENOTDIR}
		}
	}
}

func parts(path string) []string {
	return strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
}

// prepare does what root can do for a mailbox that is not below the user's
// home directory, and returns the group that the helper is to have.
func prepare(o *order, acc *ta.Account) (gid int, err error) {
	path := strings.TrimRight(string(o.Path), "/")
	dir, st, err := trusted(filepath.Dir(path))
	if errors.Is(err, errDistrusted) {
		return acc.GID, nil
	}
	if err != nil {
		return acc.GID, err
	}
	switch {
	case st.Mode&0o002 != 0:
		return acc.GID, nil
	case st.Mode&0o020 != 0 && st.Gid != 0:
		return int(st.Gid), nil
	}
	return acc.GID, bestow(filepath.Join(dir, filepath.Base(path)), acc, path != string(o.Path))
}

// bestow makes a mailbox for its owner, if there is none: under another name
// first, so that it never is there without being his.
func bestow(path string, acc *ta.Account, maildir bool) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dir, name := filepath.Split(path)
	var chance [8]byte
	_, _ = rand.Read(chance[:]) // does not fail
	draft := fmt.Sprintf("%s.%s.%x", dir, name, chance)
	var err error
	if maildir {
		err = os.Mkdir(draft, 0o700)
	} else {
		var f *os.File
		if f, err = os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return err
	}
	if err = os.Lchown(draft, acc.UID, acc.GID); err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, draft, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = os.Remove(draft)
	} else {
		_ = syncdir.Sync(dir) // a directory that cannot be read cannot be synced
	}
	if errors.Is(err, unix.EEXIST) {
		return nil // another delivery was faster
	}
	return err
}

// rootsOwn refuses an order of root's own in a directory that others than root
// can change; where mailboxes are a group may, and all if it is sticky.
func rootsOwn(o *order) error {
	path := strings.TrimRight(string(o.Path), "/")
	_, st, err := trusted(filepath.Dir(path))
	if err == nil && o.File && (st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && st.Gid != 0) {
		err = fmt.Errorf("%q: %w", filepath.Dir(path), errDistrusted)
	}
	if errors.Is(err, errDistrusted) {
		return unfit(o.File, "root does not write to %q: %w", path, err)
	}
	return err
}
