package postoffice

// This file sets the modes of transport/ and queue/, so that only root and the
// agents' group can enter them.

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// guardedMode is the mode of transport/ and queue/ when the scheduler runs as
// root.
const guardedMode = 0o750

// Guard sets the modes of transport/ and queue/ below a postoffice to 0750 and
// keeps their setgid bits. A directory of group 0 gets the given group, unless that
// is 0 too. Guard returns what it changed, in words for a log. It does nothing
// unless it runs as root.
func Guard(postoffice string, group int) (changes []string, err error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"transport", "queue"} {
		change, err := guard(filepath.Join(postoffice, name), group)
		if err != nil {
			return changes, err
		}
		if change != "" {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func guard(dir string, group int) (change string, err error) {
	fd, err := OpenDir(WorkingDir, dir)
	if err != nil {
		return "", fmt.Errorf("opening %q: %w", dir, err)
	}
	defer Close(fd)
	var st unix.Stat_t
	if err := Fstat(fd, &st); err != nil {
		return "", fmt.Errorf("examining %q: %w", dir, err)
	}
	was, mode := st.Mode&0o7777, st.Mode&(unix.S_ISGID|unix.S_ISVTX)|guardedMode
	if st.Gid != 0 {
		group = int(st.Gid)
	}
	if was == mode && group == int(st.Gid) {
		return "", nil
	}
	if err := fchown(fd, -1, group); err != nil {
		return "", fmt.Errorf("setting the group of %q: %w", dir, err)
	}
	if err := fchmod(fd, mode); err != nil {
		return "", fmt.Errorf("setting the mode of %q: %w", dir, err)
	}
	return fmt.Sprintf("%s: mode %04o, group %d; now mode %04o, group %d", dir, was, st.Gid, mode, group), nil
}
