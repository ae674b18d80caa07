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
	// Warn, if not nil, is called when an :include: file that users can change is first
	// found to be unusable.
	Warn func(error)

	warned map[string]bool // the places for which Warn was called and that are still wrong
	table  *Table
	stamps map[string]stamp // of the files when they were read
	lists  map[string]bool  // the :include: files among them; true: users can change the file
	// existed are those of RoutesFile and AliasesFile from which the table in force was
	// read. If one of them vanishes, that table stays in force, so that no mail fails.
	existed []string

	pending chan *reading // set while the tables are being read; it gets nil if nothing has changed
	again   bool          // the tables are to be read once more after pending
	readAt  time.Time     // the earliest time of the next reading
	// If a file could not be read for a reason that may pass, the tables are read once more
	// at retryAt, even if no file has changed by then; zero: they are not.
	retryAt    time.Time
	retryDelay time.Duration // the last one
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

// reading is the result of reading the files.
type reading struct {
	table  *Table // nil after an error
	stamps map[string]stamp
	lists  map[string]bool
	err    error
	took   time.Duration
	// passing says that a file could not be read for a reason that may pass.
	passing bool
}

// readWait is how long Refresh waits for tables that it has begun to read.
const readWait = time.Second

// readPause times the duration of a reading of the tables passes before the next one: a
// user who changes a list all the time must not occupy the program.
const readPause = 10

// firstRetry is how long after such an error the tables are read again. The time doubles
// with each further error, up to lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Load reads the tables. If there are errors, it returns all of them as one, and the
// old table stays in force.
func (l *Loader) Load() error { return l.use(l.read(), time.Now()) }

// Refresh reads the tables again if a file has changed or force is set. It reads them in
// another goroutine and waits for that up to readWait. After that time the caller goes
// on with the old table, and a later call puts the new table in force. loaded is true if
// this call has done so.
func (l *Loader) Refresh(now time.Time, force bool) (loaded bool, err error) {
	wait := time.Duration(0)
	if l.pending == nil {
		if now.Before(l.readAt) && !force {
			return false, nil
		}
		l.start(now, force)
		wait = readWait
	} else {
		l.again = l.again || force
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var r *reading
	select {
	case r = <-l.pending:
	default:
		select {
		case r = <-l.pending:
		case <-timer.C:
			return false, nil
		}
	}
	l.pending = nil
	if l.again {
		l.again = false
		return l.Refresh(now, true)
	}
	if r == nil {
		return false, nil
	}
	l.readAt = now.Add(readPause * r.took)
	err = l.use(r, now)
	return err == nil, err
}

// start begins to read the tables.
func (l *Loader) start(now time.Time, force bool) {
	pending := make(chan *reading, 1)
	l.pending = pending
	if !l.retryAt.IsZero() && !now.Before(l.retryAt) {
		force, l.retryAt = true, time.Time{}
	}
	stamps, lists := l.stamps, l.lists
	go func() {
		if force || changed(stamps, lists, now) {
			pending <- l.read()
			return
		}
		pending <- nil
	}()
}

// read reads the files. It may run concurrently with the other methods.
func (l *Loader) read() *reading {
	began := time.Now()
	r := &reading{lists: map[string]bool{}}
	r.stamps = map[string]stamp{l.RoutesFile: stampOf(l.RoutesFile), l.AliasesFile: stampOf(l.AliasesFile)}
	var errs []error
	for _, file := range l.existed {
		if r.stamps[file] == (stamp{}) {
			if _, err := os.Stat(file); err != nil {
				errs = append(errs, fmt.Errorf("%w; the old tables stay in force until it is back or the router restarts", err))
			}
		}
	}
	routes, more := l.readRoutes()
	errs = append(errs, more...)
	aliases, more := ReadAliases(l.AliasesFile)
	errs = append(errs, more...)
	if aliases != nil {
		for file, list := range aliases.lists {
			if _, known := r.stamps[file]; !known {
				r.stamps[file], r.lists[file] = list.stamp, list.untrusted
			}
		}
	}
	t := &Table{Routes: routes, Aliases: aliases, Domain: l.Domains[0], HasUser: l.HasUser}
	if len(errs) == 0 {
		errs = t.Check()
	}
	if r.err = errors.Join(errs...); r.err == nil {
		r.table = t
	}
	r.passing = isPassing(r.err) || aliases != nil && aliases.passing
	r.took = time.Since(began)
	return r
}

// use puts a table in force.
func (l *Loader) use(r *reading, now time.Time) error {
	l.retryAt = time.Time{}
	if r.passing {
		l.retryDelay = min(max(2*l.retryDelay, firstRetry), lastRetry)
		l.retryAt = now.Add(l.retryDelay)
	} else {
		l.retryDelay = 0
	}
	// The stamps are kept after an error too, so that the same files are not read again.
	l.stamps, l.lists = r.stamps, r.lists
	if r.err != nil {
		return r.err
	}
	l.table = r.table
	l.existed = nil
	for _, file := range []string{l.RoutesFile, l.AliasesFile} {
		if r.stamps[file] != (stamp{}) {
			l.existed = append(l.existed, file)
		}
	}
	l.warn()
	return nil
}

// warn calls Warn for what was not wrong in the tables before. It calls it once for a
// list, whichever line of the list is wrong.
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
// younger than settleTime. A young change of a list that users can change does not delay
// the reading of other changes.
func (l *Loader) Changed(now time.Time) bool { return changed(l.stamps, l.lists, now) }

func changed(stamps map[string]stamp, lists map[string]bool, now time.Time) bool {
	found := false
	for file, was := range stamps {
		is := stampOf(file)
		if is == was {
			continue
		}
		if now.Sub(time.Unix(0, is.modified)).Abs() < settleTime {
			if lists[file] {
				continue
			}
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
