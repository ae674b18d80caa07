package smtpserver

// Logins: the origins from which each user has logged in, in a file that outlasts a
// restart of the server.

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"zsched/internal/postoffice"
)

const (
	// loginsName is the file in POSTOFFICE. Its first line is loginsHeader; each other line
	// has the time of a login in seconds since 1970, its origin and the user, separated by
	// tabs.
	loginsName   = ".smtpserver.logins"
	loginsHeader = "smtpserver logins 1\n"
	// maxLogins bounds the logins that are remembered, and maxUserLogins those of one user.
	maxLogins     = 10000
	maxUserLogins = 100
	// maxLoginName bounds the name of a user whose logins are remembered, in bytes.
	maxLoginName = 256
	// maxLoginsFile bounds the file in bytes.
	maxLoginsFile = maxLogins * (maxLoginName + 64)
	// loginsDelay is how long changes are collected before the file is written.
	loginsDelay = time.Second
	// loginsAge is how old the time of a login may become before another login from there
	// changes it.
	loginsAge = 24 * time.Hour
)

// logins remembers from which origins each user has logged in. Where somebody guesses
// the user's password, these are not slowed down.
type logins struct {
	path string
	log  zerolog.Logger

	mu      sync.Mutex
	loaded  bool
	last    map[login]time.Time // the last login, at most loginsAge before the true time
	changed bool                // the file has to be written

	saving sync.Mutex
}

func newLogins(office string, log zerolog.Logger) *logins {
	return &logins{path: filepath.Join(office, loginsName), log: log, last: make(map[login]time.Time)}
}

// load reads the file, once. A file that is damaged counts for nothing.
func (l *logins) load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded {
		return
	}
	l.loaded = true
	last, err := readLogins(l.path)
	switch {
	case err == nil:
		l.last = last
	case !errors.Is(err, fs.ErrNotExist):
		l.log.Warn().Err(err).Msg("the addresses from which users have logged in are forgotten")
	}
}

// readLogins reads the file at path.
func readLogins(path string) (map[login]time.Time, error) {
	f, _, err := postoffice.OpenOwn(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLoginsFile+1))
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(text, []byte(loginsHeader))
	if !ok || len(text) > maxLoginsFile || text[len(text)-1] != '\n' {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	last, n := make(map[login]time.Time), 1
	for line := range strings.Lines(string(rest)) {
		n++
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		at, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil || len(words) < 3 || words[1] == "" || words[2] == "" || n > maxLogins+1 {
			return nil, fmt.Errorf("%s:%d is damaged", path, n)
		}
		last[login{words[2], words[1]}] = time.Unix(at, 0)
	}
	return last, nil
}

// has reports whether the user has logged in from there.
func (l *logins) has(at login) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.last[at]
	return ok
}

// add remembers a login. It writes the file soon, unless a recent login from there is
// in it.
func (l *logins) add(at login, now time.Time) {
	if len(at.user) > maxLoginName {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.last[at]
	if known && now.Sub(before).Abs() < loginsAge {
		return
	}
	l.last[at] = now
	if !known {
		l.evict(at.user)
	}
	if !l.changed {
		l.changed = true
		time.AfterFunc(loginsDelay, l.save)
	}
}

// evict removes the oldest login of a user who has too many, or the oldest of all if
// there are too many. The caller holds mu.
func (l *logins) evict(user string) {
	var oldest, oldestOfUser login
	var first, firstOfUser time.Time
	ofUser := 0
	for at, last := range l.last {
		if first.IsZero() || last.Before(first) {
			oldest, first = at, last
		}
		if at.user == user {
			ofUser++
			if firstOfUser.IsZero() || last.Before(firstOfUser) {
				oldestOfUser, firstOfUser = at, last
			}
		}
	}
	switch {
	case ofUser > maxUserLogins:
		delete(l.last, oldestOfUser)
	case len(l.last) > maxLogins:
		delete(l.last, oldest)
	}
}

// save writes the file if there were changes.
func (l *logins) save() {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	changed, last := l.changed, maps.Clone(l.last)
	l.changed = false
	l.mu.Unlock()
	if !changed {
		return
	}
	if err := writeLogins(l.path, last); err != nil {
		l.log.Warn().Err(err).Msg("the addresses from which users have logged in are not saved")
	}
}

// writeLogins replaces the file at path. It can be read by its owner only.
func writeLogins(path string, last map[login]time.Time) error {
	temp := path + ".new"
	if err := postoffice.Remove(postoffice.WorkingDir, temp); err != nil {
		return fmt.Errorf("removing %s: %w", temp, err)
	}
	f, err := postoffice.OpenFile(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f)
	_, _ = out.WriteString(loginsHeader) // out keeps the error
	for _, at := range slices.SortedFunc(maps.Keys(last), func(a, b login) int {
		return cmp.Or(strings.Compare(a.user, b.user), last[a].Compare(last[b]))
	}) {
		fmt.Fprintf(out, "%d\t%s\t%s\n", last[at].Unix(), at.origin, at.user)
	}
	if err = out.Flush(); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return postoffice.Replace(postoffice.WorkingDir, temp, postoffice.WorkingDir, path)
}
