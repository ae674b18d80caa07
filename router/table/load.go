package table

// Loading: reading both tables, and reading them again when a file changes.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Loader keeps the table in force up to date with its files.
type Loader struct {
	RoutesFile, AliasesFile string
	Domains                 []string // of this machine; the first is that of bare names
	HasUser                 func(string) bool

	table    *Table
	stamps   map[string]stamp // of all files when they were read
	lookedAt time.Time        // when they were last looked at
	// failed is the error of the last reading, which is tried again at retryAt although no
	// file has changed; nil: there was none.
	failed  error
	retryAt time.Time
}

// RoutesFile is the table of routes in MAILSHARE.
func RoutesFile(mailshare string) string { return filepath.Join(mailshare, "routes") }

// NewLoader returns a Loader for the tables in MAILSHARE, on a machine with this name. The
// domain of bare names is ORGDOMAIN, if it is not "".
func NewLoader(mailshare, orgDomain, hostname string) *Loader {
	l := &Loader{RoutesFile: RoutesFile(mailshare), AliasesFile: filepath.Join(mailshare, "aliases")}
	if orgDomain != "" && !strings.EqualFold(orgDomain, hostname) {
		l.Domains = append(l.Domains, orgDomain)
	}
	l.Domains = append(l.Domains, strings.ToLower(hostname))
	return l
}

// stamp identifies a version of a file; the zero value is that of no file.
type stamp struct {
	inode    uint64
	size     int64
	modified int64 // mtime in nanoseconds
	changed  int64 // ctime in nanoseconds
}

// settleTime is how old a change of a file has to be before the file is read again:
// an editor may still be writing it.
const settleTime = time.Second

// lookInterval is how often the files are looked at.
const lookInterval = time.Second

// retryTime is how long after an error, which may pass, the tables are read again.
const retryTime = time.Minute

// Table is the table in force.
func (l *Loader) Table() *Table { return l.table }

// Refresh reads the tables again if a file has changed, for which it looks once in a
// lookInterval, or if force is set. loaded says that
// new ones are in force now. An error that stays the same is returned once, unless force is
// set.
func (l *Loader) Refresh(now time.Time, force bool) (loaded bool, err error) {
	if !force && now.Sub(l.lookedAt).Abs() < lookInterval {
		return false, nil
	}
	l.lookedAt = now
	again := l.failed != nil && !now.Before(l.retryAt)
	if !force && !again && !l.changed(now) {
		return false, nil
	}
	before := l.failed
	err = l.Load()
	l.failed, l.retryAt = err, now.Add(retryTime)
	if err != nil && before != nil && err.Error() == before.Error() && !force {
		return false, nil
	}
	return err == nil, err
}

// Load reads the tables. If there are errors, it returns all of them as one, and the
// old table stays in force.
func (l *Loader) Load() error {
	old := l.stamps
	// They are kept after an error too, so that the same files are not read again.
	l.stamps = map[string]stamp{l.RoutesFile: stampOf(l.RoutesFile), l.AliasesFile: stampOf(l.AliasesFile)}
	var errs []error
	for _, file := range []string{l.RoutesFile, l.AliasesFile} {
		if l.stamps[file] != (stamp{}) || old[file] == (stamp{}) {
			continue
		}
		// With an empty table all mail to aliases would fail. The file counts as changed
		// until it is back.
		l.stamps[file] = old[file]
		errs = append(errs, fmt.Errorf("%s has vanished; the old tables stay in force until it is back or the router restarts", file))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	routes, more := l.readRoutes()
	errs = append(errs, more...)
	aliases, more := ReadAliases(l.AliasesFile)
	errs = append(errs, more...)
	if aliases != nil {
		for file, was := range aliases.lists {
			l.stamps[file] = was
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	l.table = &Table{Routes: routes, Aliases: aliases, Domain: l.Domains[0], HasUser: l.HasUser}
	return nil
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

// changed reports whether a file has changed since it was read, and no change is
// younger than settleTime.
func (l *Loader) changed(now time.Time) bool {
	found := false
	for file, was := range l.stamps {
		is := stampOf(file)
		if is == was {
			continue
		}
		if now.Sub(time.Unix(0, is.modified)).Abs() < settleTime {
			return false
		}
		found = true
	}
	return found
}

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}
	}
	st := info.Sys().(*syscall.Stat_t)
	return stamp{st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}
