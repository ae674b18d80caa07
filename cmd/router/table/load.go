package table

// Loading: reading both tables, and reading them again when a file changes.

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Loader keeps the table in force up to date with its files.
type Loader struct {
	RoutesFile, AliasesFile string
	Domains                 []string // of this machine; the first is that of bare names
	HasUser                 func(string) bool
	// Warn is told of an :include: file that users can change and that cannot be used, when
	// that is found first. nil: nobody is.
	Warn func(error)

	warned map[string]bool // the places that Warn was told of, and that are still wrong
	table  *Table
	stamps map[string]stamp // of the files when they were read
	lists  map[string]bool  // of them, those that users can change
}

// stamp identifies a version of a file.
type stamp struct {
	inode    uint64
	size     int64
	modified int64 // mtime in nanoseconds
	changed  int64 // ctime in nanoseconds
}

// settleTime is how old a change of a file has to be before the file is read again:
// an editor may still be writing it.
const settleTime = time.Second

// Table is the table in force.
func (l *Loader) Table() *Table { return l.table }

// Load reads the tables. If there are errors, it returns all of them as one, and the
// old table stays in force.
func (l *Loader) Load() error {
	stamps := map[string]stamp{l.RoutesFile: stampOf(l.RoutesFile), l.AliasesFile: stampOf(l.AliasesFile)}
	routes, errs := l.readRoutes()
	aliases, more := ReadAliases(l.AliasesFile)
	errs = append(errs, more...)
	if aliases != nil {
		l.lists = map[string]bool{}
		for file, list := range aliases.lists {
			if _, known := stamps[file]; !known {
				stamps[file], l.lists[file] = list.stamp, list.inHands
			}
		}
	}
	// This is kept after an error too, so that the same files are not read again.
	l.stamps = stamps
	t := &Table{Routes: routes, Aliases: aliases, Domain: l.Domains[0], HasUser: l.HasUser}
	if len(errs) == 0 {
		errs = t.Check()
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	l.table = t
	l.warn()
	return nil
}

// warn tells Warn of what was not wrong in the tables before. It is told of a list once,
// whatever line of the list is wrong.
func (l *Loader) warn() {
	before := l.warned
	l.warned = map[string]bool{}
	for _, err := range l.table.Aliases.Warnings() {
		place := err.Error()
		if at := new(Error); errors.As(err, &at) && at.File != l.AliasesFile {
			place = at.File
		}
		if !before[place] && !l.warned[place] && l.Warn != nil {
			l.Warn(err)
		}
		l.warned[place] = true
	}
}

func (l *Loader) readRoutes() (*Routes, []error) {
	text, err := os.ReadFile(l.RoutesFile)
	if errors.Is(err, os.ErrNotExist) {
		return DefaultRoutes(l.Domains...), nil
	}
	if err == nil && len(text) > maxTable {
		err = fmt.Errorf("%s: longer than %d bytes", l.RoutesFile, maxTable)
	}
	if err != nil {
		return nil, []error{err}
	}
	return ParseRoutes(l.RoutesFile, string(text))
}

// Changed reports whether a file has changed since it was read, and no change is
// younger than settleTime. A young change of a file that users can change delays only
// itself.
func (l *Loader) Changed(now time.Time) bool {
	changed := false
	for file, was := range l.stamps {
		is := stampOf(file)
		if is == was {
			continue
		}
		if now.Sub(time.Unix(0, is.modified)).Abs() < settleTime {
			if l.lists[file] {
				continue
			}
			return false
		}
		changed = true
	}
	return changed
}

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}
	}
	st := info.Sys().(*syscall.Stat_t)
	return stamp{st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}
