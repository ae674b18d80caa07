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

// guard closes directories to users.
type guard struct {
	postoffice string
	changes    []string
}

// closed says what a directory becomes.
type closed struct {
	owner, group int    // -1: as it is
	mode         uint32 // the bits that it gets, besides those that stay
	stay         uint32 // the bits that stay as they are
}

// Guard sets the modes of transport/ and queue/ below a postoffice, and of hold/,
// postman/ and corrupt/ with the directories of these names in them, to 0750, and keeps
// their setgid and sticky bits. A directory transport/ or queue/ of group 0 gets the
// given group, unless that is 0 too. hold/, postman/ and corrupt/ become root's. Hash
// directories get the owner of the directory that they are in, and others cannot write
// to them. Guard returns what it changed, in words for a log. It does nothing unless it
// runs as root.
func Guard(postoffice string, group int) (changes []string, err error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	g := &guard{postoffice: postoffice}
	const bits = unix.S_ISGID | unix.S_ISVTX
	for _, name := range []string{"transport", "queue"} {
		if err := g.tree(name, closed{-1, group, guardedMode, bits}); err != nil {
			return g.changes, err
		}
	}
	kept := closed{0, -1, guardedMode, bits}
	for _, place := range []string{"hold", "postman", "corrupt"} {
		// Once this directory is closed, no user can exchange those below it.
		if _, err := g.close(place, kept); err != nil && !errors.Is(err, unix.ENOENT) {
			return g.changes, err
		}
		for _, name := range []string{"transport", "queue"} {
			if err := g.tree(filepath.Join(place, name), kept); err != nil && !errors.Is(err, unix.ENOENT) {
				return g.changes, err
			}
		}
	}
	return g.changes, nil
}

// tree closes a directory and its hash directories, which are at most two levels deep.
func (g *guard) tree(name string, to closed) error {
	top, err := g.close(name, to)
	if err != nil {
		return err
	}
	hash := closed{int(top.Uid), -1, 0, 0o7775}
	if to.owner == 0 {
		hash.mode, hash.stay = guardedMode, to.stay
	}
	return g.hashDirs(name, hash, 2)
}

func (g *guard) hashDirs(above string, to closed, levels int) error {
	if levels == 0 {
		return nil
	}
	for letter := 'A'; letter <= 'Z'; letter++ {
		name := filepath.Join(above, string(letter))
		var st unix.Stat_t
		if err := Stat(WorkingDir, filepath.Join(g.postoffice, name), &st); err == unix.ENOENT ||
			err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue // no mail is below it
		}
		if _, err := g.close(name, to); err != nil {
			return err
		}
		if err := g.hashDirs(name, to, levels-1); err != nil {
			return err
		}
	}
	return nil
}

// close closes one directory and returns its state.
func (g *guard) close(name string, to closed) (st unix.Stat_t, err error) {
	path := filepath.Join(g.postoffice, name)
	// An administrator may have put a directory elsewhere; a user may not.
	if err := Stat(WorkingDir, path, &st); err != nil {
		return st, fmt.Errorf("examining %q: %w", path, err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && st.Uid != 0 {
		return st, fmt.Errorf("%q: %w", path, errUsersLink)
	}
	fd, err := OpenDir(WorkingDir, path)
	if err != nil {
		return st, fmt.Errorf("opening %q: %w", path, err)
	}
	defer Close(fd)
	if err := Fstat(fd, &st); err != nil {
		return st, fmt.Errorf("examining %q: %w", path, err)
	}
	was, mode := st.Mode&0o7777, st.Mode&to.stay|to.mode
	owner, group := int(st.Uid), int(st.Gid)
	if to.owner >= 0 {
		owner = to.owner
	}
	if to.group >= 0 && group == 0 {
		group = to.group
	}
	if was == mode && owner == int(st.Uid) && group == int(st.Gid) {
		return st, nil
	}
	// A user who owns it could otherwise open it again in between.
	if err := fchown(fd, owner, group); err != nil {
		return st, fmt.Errorf("setting the owner of %q: %w", path, err)
	}
	if err := fchmod(fd, mode); err != nil {
		return st, fmt.Errorf("setting the mode of %q: %w", path, err)
	}
	from := ""
	if owner != int(st.Uid) {
		from = fmt.Sprintf("owner %d, ", st.Uid)
	}
	g.changes = append(g.changes, fmt.Sprintf("%s: %smode %04o, group %d; now mode %04o, group %d", path, from, was, st.Gid, mode, group))
	st.Uid = uint32(owner)
	return st, nil
}
