package table

// Aliases: the table of aliases, with its :include: files.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zsched/queue"
)

// kind says what a member is.
type kind uint8

const (
	address kind = iota // looked up and routed
	user                // \name: the mailbox itself, not looked up again
	program             // |command or /path: delivered with the privilege of the owner of the table
)

// Member is one of the addresses that an alias stands for.
type Member struct {
	kind kind
	text string // as it is put into a control file
}

// Aliases is the table of aliases.
type Aliases struct {
	names map[string]*alias
	path  string           // of the table
	uid   int              // its owner, whose privilege programs and files have
	lists map[string]stamp // its :include: files, as they were before they were read
}

type alias struct {
	name    string
	members []Member
	line    int
}

// Limits of a table.
const (
	maxTable       = 64 << 20 // bytes of one file
	maxInclude     = 10       // levels of :include:
	maxListMembers = 100000   // of one :include: file
	maxErrors      = 100      // that are reported
)

// NoAliases is an empty table.
func NoAliases() *Aliases {
	return &Aliases{names: map[string]*alias{}, lists: map[string]stamp{}}
}

// reader reads a table and its includes.
type reader struct {
	aliases *Aliases
	errs    []error
	opened  []string // the includes that are being read, outermost first
}

// ReadAliases reads the table in a file and its :include: files. It returns all errors. A
// file that does not exist is an empty table.
func ReadAliases(path string) (*Aliases, []error) {
	text, uid, err := readFile(path, anybody)
	if errors.Is(err, os.ErrNotExist) {
		return NoAliases(), nil
	}
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", path, err)}
	}
	r := reader{aliases: NoAliases()}
	r.aliases.path, r.aliases.uid = path, uid
	r.table(text)
	return r.aliases, r.errs
}

// place is a line of a file.
type place struct {
	file string
	line int
}

// fail adds an error, once: a line may name the same thing twice.
func (r *reader) fail(at place, format string, args ...any) {
	err := Error{at.file, at.line, fmt.Sprintf(format, args...)}
	again := func(e error) bool { return *e.(*Error) == err }
	if len(r.errs) < maxErrors && !slices.ContainsFunc(r.errs, again) {
		r.errs = append(r.errs, &err)
	}
}

// table reads "name: member, member" lines and the folded lines after them.
func (r *reader) table(text string) {
	var current *alias
	at := place{file: r.aliases.path}
	for line := range strings.Lines(text) {
		at.line++
		line = strings.TrimRight(line, "\r\n \t")
		members := strings.TrimLeft(line, " \t")
		if members == "" || members[0] == '#' {
			continue
		}
		if members == line {
			name, after, reason := cutName(line)
			if reason != "" {
				r.fail(at, "%s", reason)
				current = new(alias) // for the folded lines
				continue
			}
			members = after
			current = &alias{name: name, line: at.line}
			if first := r.aliases.names[name]; first != nil {
				r.fail(at, "alias %.200q is also in line %d", name, first.line)
			} else {
				r.aliases.names[name] = current
			}
		} else if current == nil {
			r.fail(at, "a folded line without an alias before it")
			continue
		}
		r.members(current, at, members)
	}
	for _, a := range r.aliases.names {
		if len(a.members) == 0 && len(r.errs) == 0 {
			r.fail(place{at.file, a.line}, "alias %.200q has no members", a.name)
		}
	}
}

// cutName cuts a line into the name at its beginning, in lower case, and the members.
// reason says why there is no name.
func cutName(line string) (name, members, reason string) {
	name, members, found := strings.Cut(line, ":")
	if quoted, ok := strings.CutPrefix(line, `"`); ok {
		if name, members, ok = strings.Cut(quoted, `"`); !ok {
			return "", "", "the name's quotes do not close"
		}
		members, found = strings.CutPrefix(strings.TrimLeft(members, " \t"), ":")
	}
	name = strings.TrimSpace(name)
	switch {
	case !found:
		return "", "", "no colon after the name"
	case name == "" || strings.ContainsAny(name, "<>,:;\\\x00"):
		return "", "", fmt.Sprintf("%.200q is not a name", name)
	}
	return strings.ToLower(name), members, ""
}

// members appends the members in a line.
func (r *reader) members(to *alias, at place, line string) {
	words, closed := splitMembers(line)
	if !closed {
		r.fail(at, "the quotes do not close")
	}
	for _, w := range words {
		r.member(to, at, w)
	}
}

func (r *reader) member(to *alias, at place, word string) {
	m := Member{text: unquote(word)}
	switch {
	case strings.ContainsFunc(m.text, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.fail(at, "%.200q has a control character", m.text)
		return
	case strings.HasPrefix(m.text, ":include:"):
		r.include(to, at, strings.TrimSpace(strings.TrimPrefix(m.text, ":include:")))
		return
	case m.text[0] == '|' || m.text[0] == '/':
		m.kind = program
		to.members = append(to.members, m)
		return
	case m.text[0] == '\\':
		m.kind, m.text = user, m.text[1:]
	}
	if !queue.PlainAddress(m.text) || len(m.text) > maxAddress {
		r.fail(at, "%.200q is not a mail address", word)
		return
	}
	to.members = append(to.members, m)
}

// include appends the members in an :include: file.
func (r *reader) include(to *alias, at place, path string) {
	reason := ""
	switch {
	case slices.Contains(r.opened, path):
		reason = "it includes itself"
	case len(r.opened) == maxInclude:
		reason = fmt.Sprintf("more than %d levels", maxInclude)
	case !filepath.IsAbs(path):
		reason = "the path is not absolute"
	}
	text := ""
	if reason == "" {
		r.aliases.lists[path] = stampOf(path)
		var err error
		if text, _, err = readFile(path, r.aliases.uid); err != nil {
			reason = err.Error()
		}
	}
	if reason != "" {
		r.fail(at, "include %.200s: %s", path, reason)
		return
	}
	r.opened = append(r.opened, path)
	had := len(to.members)
	at = place{file: path}
	for line := range strings.Lines(text) {
		at.line++
		if line = strings.Trim(line, "\r\n \t"); line != "" && line[0] != '#' {
			r.members(to, at, line)
		}
		if len(to.members)-had > maxListMembers {
			r.fail(at, "more than %d members", maxListMembers)
			break
		}
	}
	r.opened = r.opened[:len(r.opened)-1]
}

// splitMembers splits a line at the commas outside quotes. Unless the quotes are closed,
// the last member is left out.
func splitMembers(line string) (words []string, closed bool) {
	begin, quoted := 0, false
	add := func(text string) {
		if text = strings.Trim(text, " \t"); text != "" {
			words = append(words, text)
		}
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			add(line[begin:i])
			begin = i + 1
		}
	}
	if !quoted {
		add(line[begin:])
	}
	return words, !quoted
}

// unquote removes the quotes of "|command", "/path", ":include:path" and |"command".
// Those of a local part stay.
func unquote(text string) string {
	bar := ""
	inner := text
	if rest, ok := strings.CutPrefix(text, "|"); ok {
		bar, inner = "|", strings.TrimLeft(rest, " \t")
	}
	if len(inner) < 2 || inner[0] != '"' || inner[len(inner)-1] != '"' {
		return bar + inner
	}
	inner = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(inner[1 : len(inner)-1])
	if bar == "" && (inner == "" || !strings.ContainsRune("|/:", rune(inner[0]))) {
		return text
	}
	return bar + inner
}

// builtin has the aliases that every site needs (RFC 5321 section 4.5.1), with their
// members. The table overrides them.
var builtin = map[string]string{"postmaster": "root", "mailer-daemon": "postmaster"}

// find returns the alias with a name, or nil.
func (a *Aliases) find(name string) *alias {
	name = strings.ToLower(name)
	if found := a.names[name]; found != nil {
		return found
	}
	if to, ok := builtin[name]; ok {
		return &alias{name: name, members: []Member{{text: to}}}
	}
	return nil
}

// Len returns the number of aliases.
func (a *Aliases) Len() int { return len(a.names) }
