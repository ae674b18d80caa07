package mailbox

// What root may do in a directory of mailboxes depends on who else can change
// it. A directory that only root can write to, reached through directories that
// only root can change, belongs to the administrator: there root creates a
// missing mailbox for its owner in one step. In a directory that a group may
// write to, root does nothing itself, but the delivery helper gets that group.
// In all other directories the helper has the user's own rights and no more.

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
	"zsched/ta"
)

// errDistrusted says that users other than root can change what is at a path.
var errDistrusted = errors.New("users other than root can change it")

// trusted resolves the path of a directory and returns its state, which says who
// besides root may write to it. The error is errDistrusted if users other than
// root can change a directory or link on the way; trusted goes no further then.
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

// prepare does what root may do for a mailbox outside the user's home directory,
// and returns the group for the helper.
func prepare(req *request, acc *ta.Account) (gid int, err error) {
	path := strings.TrimRight(string(req.Path), "/")
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
	return acc.GID, createMailbox(filepath.Join(dir, filepath.Base(path)), acc, path != string(req.Path))
}

// createMailbox creates a mailbox for its owner, if there is none. The
// mailbox has a temporary name until it belongs to the owner.
func createMailbox(path string, acc *ta.Account, maildir bool) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dir, name := filepath.Split(path)
	var random [8]byte
	_, _ = rand.Read(random[:]) // does not fail
	draft := fmt.Sprintf("%s.%s.%x", dir, name, random)
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
		_ = postoffice.SyncDir(dir) // a directory that cannot be read cannot be synced
	}
	if errors.Is(err, unix.EEXIST) {
		return nil // another delivery was faster
	}
	return err
}

// checkRootDelivery refuses a delivery by root in a directory that users other
// than root can change. The directory of a mailbox may be writable by a group,
// and by everybody if it is sticky.
func checkRootDelivery(req *request) error {
	path := strings.TrimRight(string(req.Path), "/")
	_, st, err := trusted(filepath.Dir(path))
	if err == nil && req.File && (st.Mode&0o002 != 0 || st.Mode&0o020 != 0 && st.Gid != 0) {
		err = fmt.Errorf("%q: %w", filepath.Dir(path), errDistrusted)
	}
	if errors.Is(err, errDistrusted) {
		return unusable(req.File, "root does not write to %q: %w", path, err)
	}
	return err
}
