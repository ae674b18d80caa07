package table

// Aliases: the table of aliases, with its :include: files.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"zsched/ctlfile"
)

// kind says what a member is.
type kind uint8

const (
	address kind = iota // looked up and routed
	user                // \name: the mailbox itself, not looked up again
	program             // |command or /path: delivered with the privilege of the owner of the file that names it
)

// Member is one of the addresses that an alias stands for.
type Member struct {
	kind         kind
	text         string // as it is put into a control file
	uid          int    // owner of the file that names it; for a program only
	file         string
	line, column int
	untrusted    bool // from an :include: file that users can change
}

// Aliases is the table of aliases.
type Aliases struct {
	names    map[string]*alias
	path     string          // of the table
	lists    map[string]list // its :include: files
	warnings []error
	passing  bool // a file could not be read for a reason that may pass (isPassing)
}

// list is what the loader knows of an :include: file.
type list struct {
	stamp     stamp // before it was read
	untrusted bool  // users can change the file
}

type alias struct {
	name    string
	members []Member
	line    int
	// untrusted says that a member is an :include: file that users can change. If such a
	// file cannot be read, broken is set, and mail to the alias waits.
	untrusted, broken bool
}

// Limits of a table.
const (
	maxTable   = 64 << 20 // bytes of one file
	maxInclude = 10       // levels of :include:
)

// NoAliases is an empty table.
func NoAliases() *Aliases {
	return &Aliases{names: map[string]*alias{}, lists: map[string]list{}}
}

// source is one file of the table while it is read.
type source struct {
	path string
	uid  int // owner
	// closed says that only the owner and root can write or replace the file. If it is
	// false, programs, files and :include: in the file are errors, and why says who
	// else can change it.
	closed bool
	why    string
	// isList marks an :include: file. Errors do not quote its text, which not everybody
	// may read. untrusted says that users besides root and the table's owner can change it.
	isList, untrusted bool
}

// reader reads a table and its includes.
type reader struct {
	aliases *Aliases
	root    source
	errs    []error
	current *alias // whose members are being read
	// reported counts the errors and warnings. before is its value at the beginning of the
	// :include: file that is being read: such a file is read up to its first error.
	reported, before int
	opened           []string // the includes that are being read, outermost first
	quiet            bool     // the table is a text and not a file: no :include: file is opened
}

// ReadAliases reads the table in a file and its :include: files. It returns all
// errors but those of lists that users can change, which are in Warnings. A file that
// does not exist is an empty table.
func ReadAliases(path string) (*Aliases, []error) {
	text, src, _, err := readSource(path, anybody)
	if errors.Is(err, os.ErrNotExist) {
		return NoAliases(), nil
	}
	if err != nil {
		return nil, []error{fmt.Errorf("%s: %w", path, err)}
	}
	r := reader{aliases: NoAliases(), root: src}
	r.aliases.path = path
	r.table(text)
	return r.aliases, r.errs
}

// ParseAliases reads the text of a table as if root owned it. It opens no :include:
// file: such a member adds no addresses.
func ParseAliases(file, text string) (*Aliases, []error) {
	r := reader{aliases: NoAliases(), root: source{path: file, closed: true}, quiet: true}
	r.table(text)
	return r.aliases, r.errs
}

func (r *reader) fail(src source, line, column int, format string, args ...any) {
	r.report(src.untrusted, &Error{src.path, line, column, fmt.Sprintf(format, args...)})
}

// report keeps an error. An error in a list that users can change affects only the alias
// that includes the list: a user must not keep the tables from being loaded.
func (r *reader) report(untrusted bool, err *Error) {
	r.reported++
	if untrusted {
		r.current.broken = true
		r.aliases.warnings = append(r.aliases.warnings, err)
		return
	}
	r.errs = append(r.errs, err)
}

// table reads "name: member, member" lines and the folded lines after them.
func (r *reader) table(text string) {
	var current *alias
	number := 0
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
				r.fail(r.root, number, 1, "%s", reason)
				current = new(alias) // for the folded lines
				continue
			}
			start = after
			current = &alias{name: name, line: number}
			if first := r.aliases.names[name]; first != nil {
				r.fail(r.root, number, 1, "alias %.200q is also in line %d", name, first.line)
			} else {
				r.aliases.names[name] = current
			}
		} else if current == nil {
			r.fail(r.root, number, 1, "a folded line without an alias before it")
			continue
		}
		r.current = current
		r.members(r.root, &current.members, line, number, start)
	}
	for _, a := range r.aliases.names {
		if len(a.members) == 0 && len(r.errs) == 0 && !r.quiet && !a.broken {
			r.current = a
			r.report(a.untrusted, &Error{r.root.path, a.line, 1, fmt.Sprintf("alias %.200q has no members", a.name)})
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

// members appends the members in a line of a file, from index start on.
func (r *reader) members(src source, to *[]Member, line string, number, start int) {
	for _, w := range splitMembers(line, start) {
		if src.isList && (r.reported > r.before) {
			return
		}
		if w.column < 0 {
			r.fail(src, number, -w.column, "the quotes do not close")
			continue
		}
		r.member(src, to, w, number)
	}
}

func (r *reader) member(src source, to *[]Member, w word, number int) {
	text := unquote(w.text)
	m := Member{text: text, uid: src.uid, file: src.path, line: number, column: w.column, untrusted: src.untrusted}
	include, isInclude := strings.CutPrefix(text, ":include:")
	switch {
	case isInclude || text[0] == '|' || text[0] == '/':
		what := map[bool]string{true: "an :include:", false: "a program or file"}[isInclude]
		switch {
		case !src.closed:
			r.fail(src, number, w.column, "%s is not allowed: %s", what, src.why)
		case src.uid != r.root.uid:
			r.fail(src, number, w.column, "%s is not allowed: the file belongs to user %d, not to the owner of the table", what, src.uid)
		case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }):
			r.fail(src, number, w.column, "%s has a control character", what)
		case isInclude:
			r.include(src, to, strings.TrimSpace(include), number, w.column)
		default:
			m.kind = program
			*to = append(*to, m)
		}
		return
	case text[0] == '\\':
		m.kind, m.text = user, text[1:]
	}
	if !ctlfile.PlainAddress(m.text) || len(m.text) > maxAddress {
		if src.isList {
			r.fail(src, number, w.column, "not a mail address")
		} else {
			r.fail(src, number, w.column, "%.200q is not a mail address", text)
		}
		return
	}
	*to = append(*to, m)
}

// include appends the members in an :include: file.
func (r *reader) include(by source, to *[]Member, path string, number, column int) {
	if r.quiet {
		return
	}
	for _, open := range r.opened {
		if open == path {
			r.fail(by, number, column, "%s includes itself", path)
			return
		}
	}
	if len(r.opened) == maxInclude {
		r.fail(by, number, column, "more than %d levels of :include:", maxInclude)
		return
	}
	if !filepath.IsAbs(path) {
		r.fail(by, number, column, "the path %.200q is not absolute", path)
		return
	}
	before := stampOf(path)
	text, src, untrusted, err := readSource(path, r.root.uid)
	src.isList, src.untrusted = true, untrusted
	r.aliases.lists[path] = list{before, untrusted}
	r.current.untrusted = r.current.untrusted || untrusted
	if err != nil {
		r.aliases.passing = r.aliases.passing || isPassing(err)
		r.report(untrusted, &Error{by.path, number, column, fmt.Sprintf("include %s: %v", path, err)})
		return
	}
	r.opened = append(r.opened, path)
	r.list(src, to, text)
	r.opened = r.opened[:len(r.opened)-1]
}

// list appends the members in the text of an :include: file, up to the first error.
func (r *reader) list(src source, to *[]Member, text string) {
	line, had := 0, len(*to)
	outer := r.before
	r.before = r.reported
	defer func() { r.before = outer }()
	for raw := range strings.Lines(text) {
		line++
		raw = strings.TrimRight(raw, "\r\n \t")
		if trimmed := strings.TrimLeft(raw, " \t"); trimmed != "" && trimmed[0] != '#' {
			r.members(src, to, raw, line, 0)
		}
		if len(*to)-had > maxListMembers {
			r.fail(src, line, 1, "more than %d members", maxListMembers)
		}
		if r.reported > r.before {
			return
		}
	}
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

// Warnings returns what is wrong in :include: files that users can change. Mail to the
// aliases that include them waits.
func (a *Aliases) Warnings() []error { return a.warnings }
