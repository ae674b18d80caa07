package config

import (
	"fmt"
	"strings"

	"github.com/alecthomas/participle/v2"

	"zsched/internal/zenv"
	"zsched/scheduler"
)

// reader turns the sections of a file into clauses and parameters. It goes on
// after an error.
type reader struct {
	system System
	file   *File
	errors Errors
	at     Place           // of what is being read
	told   map[string]bool // what is to be said only once and was
	given  map[string]bool // PARAM lines so far
	muted  bool            // while defaults are read
	// patience is how many more pairs of clauses are compared.
	patience int
}

// Parse reads the text of a configuration file; name is what errors call it.
// If the text is at fault the error is an Errors.
func Parse(name string, data []byte, system System) (*File, error) {
	r := &reader{
		system: system,
		file:   &File{Name: name, Scheduler: &scheduler.Config{Env: system.Zenv.Known()}},
		told:   make(map[string]bool),
		given:  make(map[string]bool),
	}
	r.file.Scheduler.Defaults = r.defaults()
	r.file.Params = r.paramDefaults()
	// An editor elsewhere may have put a mark of the encoding in front.
	text := strings.TrimPrefix(string(data), "\ufeff")
	parsed, err := grammar.ParseString(name, text)
	if err != nil {
		return nil, Errors{grammarError(name, err)}
	}
	for _, s := range parsed.Sections {
		r.section(s)
	}
	r.consistency()
	r.fillEmpty()
	if len(r.file.Scheduler.Clauses) == 0 && len(r.errors) == 0 {
		r.at = Place{name, 1, 1}
		r.fail("there is no clause in the file")
	}
	r.file.Scheduler.Defaults.AgentTimeout = r.file.Params.AgentTimeout
	if len(r.errors) > 0 {
		inFileOrder(r.errors, func(e Error) Place { return e.Place })
		return nil, r.errors
	}
	r.differences()
	inFileOrder(r.file.Warnings, func(w Warning) Place { return w.Place })
	return r.file, nil
}

// grammarError can only come of a file beyond all measure.
func grammarError(name string, err error) Error {
	place := Place{name, 1, 1}
	if at, ok := err.(participle.Error); ok {
		place.Line, place.Column = at.Position().Line, at.Position().Column
	}
	return Error{place, "the file has too many words"}
}

func (r *reader) fail(format string, args ...any) {
	r.errors = append(r.errors, Error{r.at, fmt.Sprintf(format, args...)})
}

func (r *reader) warn(format string, args ...any) {
	if !r.muted {
		r.file.Warnings = append(r.file.Warnings, Warning{r.at, fmt.Sprintf(format, args...)})
	}
}

// warnOnce warns at the first place only.
func (r *reader) warnOnce(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !r.muted && !r.told[text] {
		r.told[text] = true
		r.warn("%s", text)
	}
}

// expand puts values of zmailer.conf into a path.
func (r *reader) expand(text string) string {
	expanded, unknown := zenv.Expand(text, r.system.Zenv.Lookup)
	for _, name := range unknown {
		r.warn("zmailer.conf does not set %s; ${%s} stays as it is", name, name)
	}
	return expanded
}

// defaults are the parameters before any clause has spoken.
func (r *reader) defaults() scheduler.Params {
	v := scheduler.Params{UID: -1, GID: -1}
	unset(r, keywords, &v)
	return v
}

func (r *reader) paramDefaults() Params {
	var v Params
	unset(r, params, &v)
	if address, set := r.system.Zenv.Lookup("SCHEDULERNOTIFY"); set {
		path, _ := cutPrefixFold(address, "UNIX:")
		var err error
		if v.NotifySock, err = localSocket(path); err != nil && path != "" {
			r.at = Place{r.file.Name, 1, 1}
			r.warn("SCHEDULERNOTIFY=%q of zmailer.conf is not used: %v", address, err)
		}
	}
	return v
}

// unset puts the defaults of a table in force. One that this machine cannot
// have, such as a group it does not know, is left out.
func unset[T any](r *reader, table []row[T], v *T) {
	r.muted = true
	defer func() { r.muted = false }()
	for _, row := range table {
		if row.unset == "" {
			continue
		}
		if apply, err := row.kind.read(row.unset, r); err == nil {
			apply(v)
		}
	}
}

func (r *reader) section(s *section) {
	words := s.Words
	head := words[0]
	r.at = r.place(head)
	name, isParam := cutPrefixFold(head.Name, "PARAM")
	switch {
	case r.torn(head):
		return
	case head.Pos.Column > 1:
		// Only before anything in the first column.
	case isParam && name == "":
		r.fail("PARAM and the name after it are one word, without a blank between")
		return
	case isParam && head.Value == "":
		r.fail("%s needs a value, after a \"=\"", head.Name)
		return
	case isParam:
		r.param(name, head)
		words = words[1:]
	case r.misplaced(head):
		words = words[1:]
	default:
		r.pattern(head)
		words = words[1:]
	}
	if len(words) > 0 && len(r.file.Scheduler.Clauses) == 0 {
		r.at = r.place(words[0])
		r.fail("%q stands before the first pattern; a clause begins with a pattern in the first column", words[0].Name)
		return
	}
	before := head
	for _, w := range words {
		r.at = r.place(w)
		if !r.torn(w) {
			r.setting(w, before)
		}
		before = w
	}
}

func (r *reader) place(w *word) Place { return Place{r.file.Name, w.Pos.Line, w.Pos.Column} }

// torn reports, as an error, a value on another line than its name.
func (r *reader) torn(w *word) bool {
	if w.whole() {
		return false
	}
	r.fail("the \"=\" after %q stands on a later line; both belong on one", w.Name)
	return true
}

// misplaced reports, as an error, a keyword with its value in the first
// column. ZMailer took it for the pattern of a clause that matches nothing.
func (r *reader) misplaced(head *word) bool {
	if head.Value == "" || strings.Contains(head.Name, "/") {
		return false
	}
	if find(keywords, head.Name) != nil {
		r.fail("the keyword %q stands in the first column, where a pattern is expected; indent it", head.Name)
	} else {
		r.fail("a pattern has no value; if %q is meant to be a keyword, indent it%s",
			head.Name, suggest(head.Name, names(keywords)))
	}
	return true
}

// pattern begins a clause.
func (r *reader) pattern(head *word) {
	pattern := head.Name
	// A host may have a "=" in it, but a pattern has no value.
	if strings.HasPrefix(head.Value, "=") && !head.quoted() {
		pattern += head.Value
	} else if head.Value != "" {
		r.fail("the pattern %q has no value; a keyword must be indented", head.Name)
	}
	channel, host, found := strings.Cut(pattern, "/")
	if !found || host == "" {
		host = "*"
	}
	if find(keywords, pattern) != nil {
		r.warn("the pattern %q is the name of a keyword; if that is meant, indent it", pattern)
	}
	if channel == "" {
		r.warn("the pattern %q names no channel and so matches nothing", pattern)
	}
	clauses := &r.file.Scheduler.Clauses
	*clauses = append(*clauses, scheduler.Clause{
		Channel: channel, Host: host, File: r.at.File, Line: r.at.Line,
	})
}

// setting reads one keyword into the last clause. The word before it tells of
// a quote in a quoted value.
func (r *reader) setting(w, before *word) {
	row := find(keywords, w.Name)
	if row == nil {
		switch {
		case w.Name == "":
			r.fail("there is no keyword before %q", w.raw())
		case w.Name == `\`:
			r.fail("a backslash carries only a quoted value on to the next line; keywords need none")
		case w.follows(before) && before.quoted(), strings.Contains(w.Name, `"`):
			r.fail("unknown keyword %q; a quoted value ends at its second quote and cannot have one in it", w.Name)
		default:
			r.fail("unknown keyword %q%s", w.Name, suggest(w.Name, names(keywords)))
		}
		return
	}
	apply := value(r, row, w)
	if apply == nil {
		return
	}
	clauses := r.file.Scheduler.Clauses
	c := &clauses[len(clauses)-1]
	c.Settings = append(c.Settings, scheduler.Setting{
		Name: row.name, Value: w.text(), File: r.at.File, Line: r.at.Line, Apply: apply,
	})
}

// param reads a PARAM line.
func (r *reader) param(name string, w *word) {
	row := find(params, name)
	if row == nil {
		r.fail("there is no %q%s", w.Name, suggest(w.Name, paramNames()))
		return
	}
	if r.given[row.name] {
		r.warn("PARAM%s was given before; the value here holds", row.name)
	}
	r.given[row.name] = true
	if apply := value(r, row, w); apply != nil {
		apply(&r.file.Params)
	}
}

// value checks the value of a word by its row and returns what puts it in
// force, or nil after an error.
func value[T any](r *reader, row *row[T], w *word) func(*T) {
	if w.quoted() && !w.closed() {
		r.fail("%s: the quote that opens here is not closed on its line%s", w.Name, unclosedHint(w))
		return nil
	}
	text := strings.TrimSpace(w.text())
	if _, isFlag := row.kind.(flag[T]); text == "" && !isFlag {
		r.fail("%s needs a value (%s)", w.Name, row.kind)
		return nil
	}
	apply, err := row.kind.read(text, r)
	if err != nil {
		r.fail("%s=%q: %v%s", w.Name, text, err, bareHint(w))
		return nil
	}
	return apply
}

func unclosedHint(w *word) string {
	if before, found := strings.CutSuffix(strings.TrimRight(w.raw(), blanks), `\`); found && before != w.raw() {
		return `; a backslash that carries it on must be the very last character`
	}
	return "; only a backslash at the end of the line carries it on to the next"
}

// bareHint explains what looks like the end of a bare value and is not.
func bareHint(w *word) string {
	switch text := w.text(); {
	case w.quoted():
		return ""
	case strings.Contains(text, ";"):
		return `; keywords have blanks between them, not ";"`
	case strings.Contains(text, "#"):
		return `; a comment after a value has a blank before its "#"`
	}
	return ""
}

func paramNames() []string {
	out := names(params)
	for i := range out {
		out[i] = "PARAM" + out[i]
	}
	return out
}

func suggest(name string, words []string) string {
	if near := nearest(name, words); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}
