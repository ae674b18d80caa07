package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
)

// Zenv is what a zmailer.conf says: NAME=value, a line each, NAME in the first
// column and "=" right after it. Blanks after "=" are skipped, one pair of
// double quotes around the value is taken away, and nothing else in it has a
// meaning. Other lines are comments. The first line of a name holds
// (zmailer.conf(5)). A nil Zenv is an empty file.
type Zenv struct {
	set map[string]string
	// file is where it was read, which is what an unset ZCONFIG stands for.
	file string
}

// zenvDefaults is what a name means that no line sets. A reference in a value
// is to the name as the file has it.
var zenvDefaults = map[string]string{
	"MAILSHARE":       "/opt/mail",
	"MAILBIN":         "/opt/mail/bin",
	"LOGDIR":          "/var/log/mail",
	"POSTOFFICE":      "/var/spool/postoffice",
	"RENDEZVOUS":      "${POSTOFFICE}/.mailq.text",
	"SCHEDULERNOTIFY": "UNIX:${POSTOFFICE}/.scheduler.notify",
}

// DefaultZenv is the file to read when none is named.
const DefaultZenv = "/opt/mail/zmailer.conf"

// ReadZenv reads a zmailer.conf.
func ReadZenv(file string) (*Zenv, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading zmailer.conf: %w", err)
	}
	z := ParseZenv(data)
	if absolute, err := filepath.Abs(file); err == nil {
		z.file = absolute
	}
	return z, nil
}

// AgentZenv reads the zmailer.conf that the scheduler names to its agents in
// ZCONFIG. Where that is empty it is the usual one, which need not be there.
func AgentZenv(zconfig string) (*Zenv, error) {
	if zconfig != "" {
		return ReadZenv(zconfig)
	}
	z, err := ReadZenv(DefaultZenv)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // which is an empty one
	}
	return z, err
}

// ParseZenv reads the text of a zmailer.conf; no text is wrong.
func ParseZenv(data []byte) *Zenv {
	z := &Zenv{set: make(map[string]string)}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		name, value, found := strings.Cut(line, "=")
		if !found || name == "" || strings.HasPrefix(name, "#") || strings.ContainsAny(name, " \t") {
			continue
		}
		if _, again := z.set[name]; !again {
			z.set[name] = unquoteZenv(value)
		}
	}
	return z
}

func unquoteZenv(value string) string {
	value = strings.TrimLeft(value, " \t")
	inner, opened := strings.CutPrefix(strings.TrimRight(value, " \t"), `"`)
	if inner, closed := strings.CutSuffix(inner, `"`); opened && closed {
		return inner
	}
	return value
}

// Get returns the value of a name and whether the file sets it; where it does
// not, the value is the default, if there is one. The names and their defaults
// are in zmailer.conf(5).
func (z *Zenv) Get(name string) (value string, set bool) {
	if z != nil {
		if value, set = z.set[name]; set {
			return value, true
		}
		if name == "ZCONFIG" {
			return z.file, false
		}
	}
	value, _ = expand(zenvDefaults[name], z.Get)
	return value, false
}

// Known returns every name that has a value, set or by default.
func (z *Zenv) Known() map[string]string {
	known := make(map[string]string)
	for name := range zenvDefaults {
		known[name], _ = z.Get(name)
	}
	if z != nil {
		maps.Copy(known, z.set)
		if file, _ := z.Get("ZCONFIG"); file != "" {
			known["ZCONFIG"] = file
		}
	}
	return known
}

// HashLevels is SCHEDULERDIRHASH, exactly "1" or "2", which overrides option
// -H; anything else does not.
func (z *Zenv) HashLevels() (levels int, set bool) {
	switch value, _ := z.Get("SCHEDULERDIRHASH"); value {
	case "1":
		return 1, true
	case "2":
		return 2, true
	}
	return 0, false
}

// RouterLevels is 1 where router/ has letter directories, ROUTERDIRHASH being
// exactly "1", and 0 else.
func (z *Zenv) RouterLevels() int {
	if value, _ := z.Get("ROUTERDIRHASH"); value == "1" {
		return 1
	}
	return 0
}

// LogsCompletions reports whether SYSLOGFLG asks for a syslog line when a
// message is done.
func (z *Zenv) LogsCompletions() bool {
	value, _ := z.Get("SYSLOGFLG")
	return strings.ContainsAny(value, "cC")
}

// expand replaces each ${NAME} that get has a value for. The others stay as
// they are and are returned; so does a "${" that is not closed.
func expand(text string, get func(string) (string, bool)) (expanded string, unknown []string) {
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
		value, set := get(name)
		if !set && value == "" {
			unknown = append(unknown, name)
			value = "${" + name + "}"
		}
		b.WriteString(value)
		text = after
	}
}
