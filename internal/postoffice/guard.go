package postoffice

// This file sets the modes and owners of the directories of a postoffice, so that only
// root and the agents' group can enter them.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// guardedMode is the mode of the directories when the scheduler runs as root.
const guardedMode = 0o750

// errUsersLink says that a user made a symbolic link where a directory is expected.
var errUsersLink = errors.New("a symbolic link of a user other than root")

// Guard sets the modes of transport/ and queue/ below a postoffice, and of hold/,
// postman/ and corrupt/ with the directories of these names in them, to 0750, and keeps
// their setgid and sticky bits; so no user reaches the hash directories in them. A directory
// transport/ or queue/ of group 0 gets the given group, unless that is 0 too. hold/, postman/
// and corrupt/ become root's. Guard returns what it changed, in words for a log. It does
// nothing unless it runs as root.
func Guard(postoffice string, group int) (changes []string, err error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	guard := func(name string, owner, group int) error {
		changed, err := closeDir(filepath.Join(postoffice, name), owner, group)
		if changed != "" {
			changes = append(changes, changed)
		}
		return err
	}
	for _, name := range []string{"transport", "queue"} {
		if err := guard(name, -1, group); err != nil {
			return changes, err
		}
	}
	for _, place := range []string{"hold", "postman", "corrupt"} {
		// Once the first directory is closed, no user can exchange those below it.
		for _, name := range []string{"", "transport", "queue"} {
			if err := guard(filepath.Join(place, name), 0, -1); err != nil && !errors.Is(err, unix.ENOENT) {
				return changes, err
			}
		}
	}
	return changes, nil
}

// closeDir closes a directory to users, and returns what it changed. An owner, or a group for a
// directory of group 0, of -1 stays as it is.
func closeDir(path string, owner, group int) (changed string, err error) {
	var st unix.Stat_t
	// An administrator may have put a directory elsewhere; a user may not.
	if err := Stat(WorkingDir, path, &st); err != nil {
		return "", fmt.Errorf("examining %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && st.Uid != 0 {
		return "", fmt.Errorf("%q: %w", path, errUsersLink)
	}
	fd, err := OpenDir(WorkingDir, path)
	if err != nil {
		return "", fmt.Errorf("opening %q: %w", path, err)
	}
	defer Close(fd)
	if err := Fstat(fd, &st); err != nil {
		return "", fmt.Errorf("examining %q: %w", path, err)
	}
	was, mode := st.Mode&0o7777, st.Mode&(unix.S_ISGID|unix.S_ISVTX)|guardedMode
	if owner < 0 {
		owner = int(st.Uid)
	}
	if group < 0 || st.Gid != 0 {
		group = int(st.Gid)
	}
	if was == mode && owner == int(st.Uid) && group == int(st.Gid) {
		return "", nil
	}
	// A user who owns it could otherwise open it again in between.
	if err := fchown(fd, owner, group); err != nil {
		return "", fmt.Errorf("setting the owner of %q: %w", path, err)
	}
	if err := fchmod(fd, mode); err != nil {
		return "", fmt.Errorf("setting the mode of %q: %w", path, err)
	}
	return fmt.Sprintf("%s: owner %d, mode %04o, group %d; now owner %d, mode %04o, group %d", path, st.Uid, was, st.Gid, owner, mode, group), nil
}
