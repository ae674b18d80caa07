// Package zenv reads zmailer.conf, the file that tells the scheduler, its
// agents and its tools where everything is (zmailer.conf(5)).
//
//	POSTOFFICE=/var/spool/postoffice     NAME=value, one per line
//	MAILSHARE = /opt/mail                not an assignment: a blank before "="
//	LOGDIR="/var/log/mail"               one pair of double quotes is removed
//	# SYSLOGFLG=T                        a comment
//
// The first line that sets a name counts. Nothing in a value is expanded.
package zenv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"zsched/internal/units"
)

// defaultPath is set by the linker when the tree is installed elsewhere:
//
//	go build -ldflags '-X zsched/internal/zenv.defaultPath=/usr/local/mail/zmailer.conf'
var defaultPath = "/opt/mail/zmailer.conf"

// DefaultPath is the file that Read reads when none is named. Its directory is
// the default of MAILSHARE.
func DefaultPath() string { return defaultPath }

// maxSize is how long the file may be, in bytes.
const maxSize = 4 << 20

// defaults are the values of names that no line sets. ${NAME} in a default
// stands for the value of that name in the file.
var defaults = map[string]string{
	"MAILSHARE":       filepath.Dir(defaultPath),
	"MAILBIN":         filepath.Join(filepath.Dir(defaultPath), "bin"),
	"LOGDIR":          "/var/log/mail",
	"POSTOFFICE":      "/var/spool/postoffice",
	"RENDEZVOUS":      "${POSTOFFICE}/.mailq.text",
	"SCHEDULERNOTIFY": "UNIX:${POSTOFFICE}/.scheduler.notify",
}

// File is the content of a zmailer.conf. A nil File is an empty one: every
// name has its default.
type File struct {
	set  map[string]string
	path string // absolute; the value of ZCONFIG unless a line sets it
}

// Read reads a zmailer.conf. An empty path means DefaultPath; if that file does
// not exist, Read returns nil, nil. With an error the File is nil too: a caller
// that was given no path may report the error and continue.
func Read(path string) (*File, error) {
	named := path != ""
	if !named {
		path = DefaultPath()
	}
	data, err := readFile(path)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading zmailer.conf: %w", err)
	}
	f := Parse(data)
	if absolute, err := filepath.Abs(path); err == nil {
		f.path = absolute
	}
	return f, nil
}

// readFile bounds what it reads, because the path may name a device.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = fmt.Errorf("%s: longer than %d bytes", path, maxSize)
	}
	return data, err
}

// Parse reads the text of a zmailer.conf. It never fails: a line that is not an
// assignment is a comment.
func Parse(data []byte) *File {
	f := &File{set: make(map[string]string)}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		name, value, found := strings.Cut(line, "=")
		if !found || name == "" || strings.HasPrefix(name, "#") || strings.ContainsAny(name, " \t") {
			continue
		}
		if _, again := f.set[name]; !again {
			f.set[name] = unquote(value)
		}
	}
	return f
}

// WithPostoffice returns the file as if it set POSTOFFICE to a directory that was named on the
// command line, which is made absolute; "" changes nothing.
func (f *File) WithPostoffice(dir string) (*File, error) {
	if dir == "" {
		return f, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	with := new(File)
	if f != nil {
		*with = *f
	}
	with.set = maps.Clone(with.set)
	if with.set == nil {
		with.set = make(map[string]string)
	}
	with.set["POSTOFFICE"] = dir
	return with, nil
}

func unquote(value string) string {
	value = strings.TrimLeft(value, " \t")
	inner, opened := strings.CutPrefix(strings.TrimRight(value, " \t"), `"`)
	if inner, closed := strings.CutSuffix(inner, `"`); opened && closed {
		return inner
	}
	return value
}

// Lookup returns the value of a name and whether the file sets it. If it does
// not, the value is the default, or "" where there is none.
func (f *File) Lookup(name string) (value string, set bool) {
	if f != nil {
		if value, set = f.set[name]; set {
			return value, true
		}
		if name == "ZCONFIG" {
			return f.path, false
		}
	}
	value, _ = Expand(defaults[name], f.Lookup)
	return value, false
}

// Value returns the value of a name, set or by default.
func (f *File) Value(name string) string {
	value, _ := f.Lookup(name)
	return value
}

// Known returns every name that has a value, set or by default.
func (f *File) Known() map[string]string {
	known := make(map[string]string)
	for name := range defaults {
		known[name] = f.Value(name)
	}
	if f != nil {
		maps.Copy(known, f.set)
		if path := f.Value("ZCONFIG"); path != "" {
			known["ZCONFIG"] = path
		}
	}
	return known
}

// HashLevels returns SCHEDULERDIRHASH, which overrides option -H of the
// scheduler if it is exactly "1" or "2".
func (f *File) HashLevels() (levels int, set bool) {
	switch f.Value("SCHEDULERDIRHASH") {
	case "1":
		return 1, true
	case "2":
		return 2, true
	}
	return 0, false
}

// RouterLevels returns 1 if router/ has hash directories, because
// ROUTERDIRHASH is exactly "1", and 0 otherwise.
func (f *File) RouterLevels() int {
	if f.Value("ROUTERDIRHASH") == "1" {
		return 1
	}
	return 0
}

// defaultRouterMaxSize is the value of ROUTERMAXSIZE that no line sets, in bytes.
const defaultRouterMaxSize = 200 << 20

// RouterMaxSize returns ROUTERMAXSIZE, how many bytes a message may have that the router
// takes; 0: there is no limit.
func (f *File) RouterMaxSize() (int64, error) {
	text, set := f.Lookup("ROUTERMAXSIZE")
	if !set {
		return defaultRouterMaxSize, nil
	}
	n, err := units.ParseSize(text)
	if err != nil {
		return 0, fmt.Errorf("ROUTERMAXSIZE: %w", err)
	}
	return n, nil
}

// LogsCompletions reports whether SYSLOGFLG asks for a line in the system's
// log when a message is done.
func (f *File) LogsCompletions() bool {
	return strings.ContainsAny(f.Value("SYSLOGFLG"), "cC")
}

// Expand replaces each ${NAME} for which lookup has a value, set or not. It
// leaves the others as they are and returns their names. A "${" that is not
// closed stays too.
func Expand(text string, lookup func(string) (value string, set bool)) (expanded string, unknown []string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), unknown
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString("${" + rest)
			return b.String(), unknown
		}
		value, set := lookup(name)
		if !set && value == "" {
			unknown = append(unknown, name)
			value = "${" + name + "}"
		}
		b.WriteString(value)
		text = after
	}
}
