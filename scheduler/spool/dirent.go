package spool

// Reading directories entry by entry.

import (
	"encoding/binary"
	"iter"
	"unsafe"

	"golang.org/x/sys/unix"

	"zsched/ctlfile"
	"zsched/internal/postoffice"
)

// dirents is a run of directory entries as getdents64(2) writes them. We read
// them ourselves because a directory of any size then is a stream: os.ReadDir
// would collect and sort all of it first.
type dirents []byte

// getdents reads the next entries. At the end of the directory there are none.
func getdents(fd int, buf []byte) (dirents, error) {
	n, err := postoffice.Getdents(fd, buf)
	switch err {
	case nil:
		return buf[:max(n, 0)], nil
	case unix.ENOENT: // the directory was removed
		return nil, nil
	}
	return nil, err
}

// dirent is one directory entry. Its name is valid until the buffer is reused.
type dirent struct {
	name []byte
	kind byte // DT_REG and so on; DT_UNKNOWN on some file systems
}

// all returns every entry, including "." and "..".
func (d dirents) all() iter.Seq[dirent] {
	const (
		length = unsafe.Offsetof(unix.Dirent{}.Reclen)
		kind   = unsafe.Offsetof(unix.Dirent{}.Type)
		start  = unsafe.Offsetof(unix.Dirent{}.Name)
	)
	return func(yield func(dirent) bool) {
		for rest := d; len(rest) > 0; {
			record := rest[:binary.NativeEndian.Uint16(rest[length:])]
			rest = rest[len(record):]
			name := record[start:]
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			if !yield(dirent{name, record[kind]}) {
				return
			}
		}
	}
}

// named returns the name of the control file in a directory entry, if it is one.
func named(dir int, prefix string, e dirent) (Name, bool) {
	if len(e.name) == 0 || e.name[0] < '0' || e.name[0] > '9' || !isKind(dir, e, unix.DT_REG) {
		return Name{}, false
	}
	path := prefix + string(e.name)
	id, ok := numbered(path[len(prefix):])
	return Name{path, id}, ok
}

// numbered returns the number of a control file's base name. A name with control
// characters has none: it could not be sent to an agent in a job line.
func numbered(base string) (uint64, bool) {
	for i := range len(base) {
		if c := base[i]; c < ' ' || c == 0x7f || c == '/' {
			return 0, false
		}
	}
	return ctlfile.Number(base)
}

// nameOf returns the name of the control file at a path, which is that of a message.
func nameOf(path string) Name {
	_, base := split(path)
	id, _ := ctlfile.Number(base)
	return Name{path, id}
}

// isKind reports whether an entry is of this kind. It examines the file where the
// directory does not say.
func isKind(dir int, e dirent, kind byte) bool {
	if e.kind != unix.DT_UNKNOWN {
		return e.kind == kind
	}
	var st unix.Stat_t
	if postoffice.Stat(dir, string(e.name), &st) != nil {
		return false
	}
	return byte(st.Mode&unix.S_IFMT>>12) == kind
}

// isHashPrefix reports whether a prefix is that of a path below transport/: "", "F/" or "F/F/".
func isHashPrefix(prefix string) bool {
	for i := 0; i < len(prefix); i += 2 {
		if !isHashDir(prefix[i:i+1]) || len(prefix) == i+1 || prefix[i+1] != '/' {
			return false
		}
	}
	return len(prefix) <= 2*maxDepth
}

// isHashDir reports whether a name is that of a hash directory.
func isHashDir[S []byte | string](name S) bool {
	return len(name) == 1 && 'A' <= name[0] && name[0] <= 'Z'
}
