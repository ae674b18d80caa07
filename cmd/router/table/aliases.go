package table

// Aliases: the table of aliases, with its :include: files.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

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
}

// Aliases is the table of aliases.
type Aliases struct {
	names map[string]*alias
	files []string // the table itself and its :include: files
}

type alias struct {
	name    string
	members []Member
	line    int
}

// Limits of a table.
const (
	maxTable   = 64 << 20 // bytes of one file
	maxInclude = 10       // levels of :include:
)

// NoAliases is an empty table.
func NoAliases() *Aliases { return &Aliases{names: map[string]*alias{}} }

// source is one file of the table while it is read.
type source struct {
	path string
	uid  int // owner
	// closed says that only the owner can write the file. If it is false, programs,
	// files and :include: in the file are errors, and why says who else can write it.
	closed bool
	why    string
}

// reader reads a table and its includes.
type reader struct {
	aliases *Aliases
	root    source
	errs    []error
	opened  []string // the includes that are being read, outermost first
	quiet   bool     // the table is a text and not a file: no :include: file is opened
}

// ReadAliases reads the table in a file and its :include: files. It returns all
// errors. A file that does not exist is an empty table.
func ReadAliases(path string) (*Aliases, []error) {
	text, src, err := readSource(path)
	if errors.Is(err, os.ErrNotExist) {
		return NoAliases(), nil
	}
	if err != nil {
		return nil, []error{err}
	}
	r := reader{aliases: NoAliases(), root: src}
	r.aliases.files = []string{path}
	r.table(text)
	return r.aliases, r.errs
}

// ParseAliases reads the text of a table as if root owned it. It opens no :include:
// file: such a member stands for nobody.
func ParseAliases(file, text string) (*Aliases, []error) {
	r := reader{aliases: NoAliases(), root: source{path: file, closed: true}, quiet: true}
	r.table(text)
	return r.aliases, r.errs
}

// readSource reads a file and finds out who can write it.
func readSource(path string) (text string, src source, err error) {
	src.path = path
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", src, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", src, err
	}
	if !info.Mode().IsRegular() {
		return "", src, fmt.Errorf("%s: not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err == nil && len(data) > maxTable {
		err = fmt.Errorf("%s: longer than %d bytes", path, maxTable)
	}
	if err != nil {
		return "", src, err
	}
	src.uid = int(info.Sys().(*syscall.Stat_t).Uid)
	src.closed, src.why = true, ""
	if info.Mode().Perm()&0o022 != 0 {
		src.closed, src.why = false, fmt.Sprintf("others can write the file (mode %04o)", info.Mode().Perm())
	} else if dir, err := os.Stat(filepath.Dir(path)); err != nil {
		return "", src, err
	} else if owner := int(dir.Sys().(*syscall.Stat_t).Uid); owner != 0 && owner != src.uid ||
		dir.Mode().Perm()&0o022 != 0 && dir.Mode()&os.ModeSticky == 0 {
		src.closed, src.why = false, "others can replace the file in its directory"
	}
	return string(data), src, nil
}

func (r *reader) fail(src source, line, column int, format string, args ...any) {
	r.errs = append(r.errs, &Error{src.path, line, column, fmt.Sprintf(format, args...)})
}

// table reads "name: member, member" lines and the folded lines after them.
func (r *reader) table(text string) {
	var now *alias
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
				now = new(alias) // for the folded lines
				continue
			}
			start = after
			now = &alias{name: name, line: number}
			if first := r.aliases.names[name]; first != nil {
				r.fail(r.root, number, 1, "alias %.200q is also in line %d", name, first.line)
			} else {
				r.aliases.names[name] = now
			}
		} else if now == nil {
			r.fail(r.root, number, 1, "a folded line without an alias before it")
			continue
		}
		r.members(r.root, &now.members, line, number, start)
	}
	for _, a := range r.aliases.names {
		if len(a.members) == 0 && len(r.errs) == 0 && !r.quiet {
			r.fail(r.root, a.line, 1, "alias %.200q stands for nobody", a.name)
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
		if w.column < 0 {
			r.fail(src, number, -w.column, "the quotes do not close")
			continue
		}
		r.member(src, to, w, number)
	}
}

func (r *reader) member(src source, to *[]Member, w word, number int) {
	text := unquote(w.text)
	m := Member{text: text, uid: src.uid, file: src.path, line: number, column: w.column}
	include, isInclude := strings.CutPrefix(text, ":include:")
	switch {
	case isInclude || text[0] == '|' || text[0] == '/':
		what := map[bool]string{true: "an :include:", false: "a program or file"}[isInclude]
		switch {
		case !src.closed:
			r.fail(src, number, w.column, "%s is not allowed: %s", what, src.why)
		case src.uid != 0 && src.uid != r.root.uid:
			r.fail(src, number, w.column, "%s is not allowed: the file belongs to user %d, not to root or the owner of the table", what, src.uid)
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
		r.fail(src, number, w.column, "%.200q is not a mail address", text)
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
	r.aliases.files = append(r.aliases.files, path)
	text, src, err := readSource(path)
	if err != nil {
		r.fail(by, number, column, "include: %v", err)
		return
	}
	r.opened = append(r.opened, path)
	line := 0
	for raw := range strings.Lines(text) {
		line++
		raw = strings.TrimRight(raw, "\r\n \t")
		if trimmed := strings.TrimLeft(raw, " \t"); trimmed != "" && trimmed[0] != '#' {
			r.members(src, to, raw, line, 0)
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

// Files returns the files that the table was read from.
func (a *Aliases) Files() []string { return a.files }
