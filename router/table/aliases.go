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

func (r *reader) fail(file string, line, column int, format string, args ...any) {
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, &Error{file, line, column, fmt.Sprintf(format, args...)})
	}
}

// table reads "name: member, member" lines and the folded lines after them.
func (r *reader) table(text string) {
	var current *alias
	file, number := r.aliases.path, 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n \t")
		trimmed := strings.TrimLeft(line, " \t")
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		start := 0
		if trimmed == line {
			name, after, reason := cutName(line)
			if reason != "" {
				r.fail(file, number, 1, "%s", reason)
				current = new(alias) // for the folded lines
				continue
			}
			start = after
			current = &alias{name: name, line: number}
			if first := r.aliases.names[name]; first != nil {
				r.fail(file, number, 1, "alias %.200q is also in line %d", name, first.line)
			} else {
				r.aliases.names[name] = current
			}
		} else if current == nil {
			r.fail(file, number, 1, "a folded line without an alias before it")
			continue
		}
		r.members(current, place{file, number}, line, start)
	}
	for _, a := range r.aliases.names {
		if len(a.members) == 0 && len(r.errs) == 0 {
			r.fail(file, a.line, 1, "alias %.200q has no members", a.name)
		}
	}
}

// cutName returns the name at the beginning of a line, in lower case, and the index
// where the members begin. reason says why there is no name.
func cutName(line string) (name string, after int, reason string) {
	i := strings.IndexByte(line, ':')
	if strings.HasPrefix(line, `"`) {
		end := strings.IndexByte(line[1:], '"')
		if end < 0 {
			return "", 0, "the name's quotes do not close"
		}
		name = line[1 : end+1]
		i = end + 2 + strings.IndexByte(line[end+2:], ':')
		if i < end+2 || strings.TrimSpace(line[end+2:i]) != "" {
			return "", 0, "no colon after the name"
		}
	} else if i < 0 {
		return "", 0, "no colon after the name"
	} else {
		name = strings.TrimSpace(line[:i])
	}
	if name == "" || strings.ContainsAny(name, "<>,:;\\\x00") {
		return "", 0, fmt.Sprintf("%.200q is not a name", name)
	}
	return strings.ToLower(name), i + 1, ""
}

// place is a line of a file.
type place struct {
	file string
	line int
}

// members appends the members in a line, from index start on.
func (r *reader) members(to *alias, at place, line string, start int) {
	for _, w := range splitMembers(line, start) {
		if w.column < 0 {
			r.fail(at.file, at.line, -w.column, "the quotes do not close")
			continue
		}
		r.member(to, at, w)
	}
}

func (r *reader) member(to *alias, at place, w word) {
	m := Member{text: unquote(w.text)}
	switch {
	case strings.ContainsFunc(m.text, func(c rune) bool { return c < ' ' || c == 0x7f }):
		r.fail(at.file, at.line, w.column, "%.200q has a control character", m.text)
		return
	case strings.HasPrefix(m.text, ":include:"):
		r.include(to, at, w.column, strings.TrimSpace(strings.TrimPrefix(m.text, ":include:")))
		return
	case m.text[0] == '|' || m.text[0] == '/':
		m.kind = program
		to.members = append(to.members, m)
		return
	case m.text[0] == '\\':
		m.kind, m.text = user, m.text[1:]
	}
	if !queue.PlainAddress(m.text) || len(m.text) > maxAddress {
		r.fail(at.file, at.line, w.column, "%.200q is not a mail address", w.text)
		return
	}
	to.members = append(to.members, m)
}

// include appends the members in an :include: file.
func (r *reader) include(to *alias, at place, column int, path string) {
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
		r.fail(at.file, at.line, column, "include %.200s: %s", path, reason)
		return
	}
	r.opened = append(r.opened, path)
	had, number := len(to.members), 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n \t")
		if trimmed := strings.TrimLeft(line, " \t"); trimmed != "" && trimmed[0] != '#' {
			r.members(to, place{path, number}, line, 0)
		}
		if len(to.members)-had > maxListMembers {
			r.fail(path, number, 1, "more than %d members", maxListMembers)
			break
		}
	}
	r.opened = r.opened[:len(r.opened)-1]
}

// splitMembers splits a line at the commas outside quotes. A negative column marks
// quotes that do not close.
func splitMembers(line string, start int) []word {
	var words []word
	begin, quoted := start, -1
	end := func(i int) {
		text := strings.TrimLeft(line[begin:i], " \t")
		column := i - len(text) + 1
		if text = strings.TrimRight(text, " \t"); text != "" {
			words = append(words, word{text, column})
		}
		begin = i + 1
	}
	for i := start; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted >= 0:
			i++
		case c == '"' && quoted >= 0:
			quoted = -1
		case c == '"':
			quoted = i
		case c == ',' && quoted < 0:
			end(i)
		}
	}
	if quoted >= 0 {
		return append(words, word{line[quoted:], -(quoted + 1)})
	}
	end(len(line))
	return words
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
