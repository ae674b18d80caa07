package config

// The reader turns a parsed scheduler.cf into clauses and parameters.

import (
	"fmt"
	"strings"

	"github.com/alecthomas/participle/v2"

	"zsched/internal/redisurl"
	"zsched/internal/zenv"
	"zsched/scheduler"
)

// reader turns the sections of a file into clauses and parameters. It continues
// after an error, so that all errors of a file are found.
type reader struct {
	system          System
	file            *File
	errors          Errors
	at              Place           // of the word or clause that is being read
	warned          map[string]bool // warnings that have been given and are given only once
	readingDefaults bool            // suppresses warnings
	comparisonsLeft int             // pairs of clauses that may still be compared
	copied          map[int]bool    // empty clauses, which have the settings of another one
}

// Parse reads the text of a configuration file. Errors and warnings call it
// name. If the text has mistakes, the error is an Errors.
func Parse(name string, data []byte, system System) (*File, error) {
	r := parse(name, data, system)
	if len(r.errors) > 0 {
		return nil, r.errors
	}
	r.findDifferences()
	sortWarnings(r.file.Warnings)
	sortWarnings(r.file.Differences)
	return r.file, nil
}

// parse reads a text and returns the reader with what it found and all errors, in
// the order of the file.
func parse(name string, data []byte, system System) *reader {
	r := &reader{
		system: system,
		file: &File{
			Name: name, Scheduler: &scheduler.Config{Env: system.Zenv.Known()}, setParams: make(map[string]Place),
		},
		warned: make(map[string]bool),
		copied: make(map[int]bool),
	}
	r.file.Scheduler.Defaults = r.defaults()
	r.file.Params = r.paramDefaults()
	// Some editors write a byte order mark.
	text := strings.TrimPrefix(string(data), "\ufeff")
	parsed, err := grammar.ParseString(name, r.takeReplies(name, text))
	if err != nil {
		r.errors = Errors{grammarError(name, err)}
		return r
	}
	for _, s := range parsed.Sections {
		r.section(s)
	}
	r.fillEmpty()
	r.checkClauses()
	if len(r.file.Scheduler.Clauses) == 0 && len(r.errors) == 0 {
		r.at = Place{name, 1, 1}
		r.fail("there is no clause in the file")
	}
	r.file.Scheduler.Defaults.AgentTimeout = r.file.Params.AgentTimeout
	r.file.Scheduler.ReportInterval = r.file.Params.ReportInterval
	r.file.Scheduler.ActiveLimit, r.file.Scheduler.RecipientLimit = r.file.Params.ActiveLimit, r.file.Params.RecipientLimit
	r.file.Scheduler.RingReserve = r.file.Params.RingReserve
	r.file.Scheduler.Shares = r.file.Params.Shares
	r.file.Scheduler.Replies = append(r.file.Scheduler.Replies, r.file.Params.Replies...)
	sortByPlace(r.errors, func(e Error) Place { return e.Place })
	return r
}

// grammarError returns the only error that the grammar can cause: a file has
// more words than participle accepts.
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
	if !r.readingDefaults {
		r.file.Warnings = append(r.file.Warnings, Warning{r.at, fmt.Sprintf(format, args...)})
	}
}

// warnOnce gives the same warning only once, at the first place.
func (r *reader) warnOnce(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !r.readingDefaults && !r.warned[text] {
		r.warned[text] = true
		r.warn("%s", text)
	}
}

// expand replaces each ${NAME} in a path with its value in zmailer.conf.
func (r *reader) expand(text string) string {
	expanded, unknown := zenv.Expand(text, r.system.Zenv.Lookup)
	for _, name := range unknown {
		r.warn("zmailer.conf does not set %s; ${%s} stays as it is", name, name)
	}
	return expanded
}

// defaults returns the parameters that apply when no clause sets any.
func (r *reader) defaults() scheduler.Params {
	v := scheduler.Params{UID: -1, GID: -1}
	applyDefaults(r, keywords, &v)
	return v
}

func (r *reader) paramDefaults() Params {
	var v Params
	applyDefaults(r, params, &v)
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

// applyDefaults applies the defaults of a table. It leaves out a default that
// does not exist on this machine, such as a group.
func applyDefaults[T any](r *reader, table []row[T], v *T) {
	r.readingDefaults = true
	defer func() { r.readingDefaults = false }()
	for _, row := range table {
		if row.preset == "" {
			continue
		}
		if apply, err := row.kind.read(row.preset, r); err == nil {
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
	case r.failIfSplit(head):
		return
	case head.Pos.Column > 1:
		// The file begins with an indented word.
	case isParam && name == "":
		r.fail("PARAM and the name after it are one word, without a blank between them")
		return
	case isParam && head.Value == "":
		r.fail("%s needs a value, after a \"=\"", head.Name)
		return
	case isParam:
		r.param(name, head)
		words = words[1:]
	case r.failIfUnindented(head):
		words = words[1:]
	default:
		r.pattern(head)
		words = words[1:]
	}
	if len(words) > 0 && len(r.file.Scheduler.Clauses) == 0 {
		r.at = r.place(words[0])
		r.fail("%q comes before the first pattern; a clause begins with a pattern in the first column", words[0].Name)
		return
	}
	before := head
	for _, w := range words {
		r.at = r.place(w)
		if !r.failIfSplit(w) {
			r.setting(w, before)
		}
		before = w
	}
}

func (r *reader) place(w *word) Place { return Place{r.file.Name, w.Pos.Line, w.Pos.Column} }

// failIfSplit reports whether the value of a word is on another line than its
// name, and records that as an error.
func (r *reader) failIfSplit(w *word) bool {
	if !w.isSplit() {
		return false
	}
	r.fail("the \"=\" of %q is on a later line; a name and its \"=\" must be on the same line", w.Name)
	return true
}

// failIfUnindented reports whether a keyword with its value begins in the first
// column, and records that as an error. ZMailer took it for the pattern of a
// clause that matches nothing.
func (r *reader) failIfUnindented(head *word) bool {
	if head.Value == "" || strings.Contains(head.Name, "/") {
		return false
	}
	if find(keywords, head.Name) != nil {
		r.fail("the keyword %q is in the first column, where a pattern is expected; indent it", head.Name)
	} else {
		r.fail("a pattern has no value; if %q is a keyword, indent it%s",
			head.Name, suggest(head.Name, names(keywords)))
	}
	return true
}

// pattern begins a clause.
func (r *reader) pattern(head *word) {
	pattern := head.Name
	// A host may contain "=", but a pattern has no value.
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
		r.warn("the pattern %q is the name of a keyword; if it is meant as one, indent it", pattern)
	}
	if channel == "" {
		r.warn("the pattern %q names no channel and so matches nothing", pattern)
	}
	clauses := &r.file.Scheduler.Clauses
	*clauses = append(*clauses, scheduler.Clause{
		Channel: channel, Host: host, File: r.at.File, Line: r.at.Line,
	})
}

// setting adds one keyword to the last clause. If it directly follows the word
// before it, the likely mistake is a quote inside a quoted value.
func (r *reader) setting(w, before *word) {
	row := find(keywords, w.Name)
	if row == nil {
		switch {
		case r.isIgnored(w.Name):
		case w.Name == "":
			r.fail("there is no keyword before %q", w.raw())
		case w.Name == `\`:
			r.fail("only a quoted value needs a backslash to continue on the next line; keywords do not")
		case strings.Contains(w.Name, "'"):
			r.fail("unknown keyword %q; values are quoted with \", not with '", w.Name)
		case w.follows(before) && before.quoted(), strings.Contains(w.Name, `"`):
			r.fail("unknown keyword %q; a quoted value ends at its second quote and cannot contain one", w.Name)
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
	if setsOneOf(c, row.name) {
		r.warn("this clause has already set %s; the value here applies", row.name)
	}
	if strings.HasPrefix(w.text(), "'") {
		r.warn("the value of %s begins with a ', which is an ordinary character; values are quoted with \"", w.Name)
	}
	c.Settings = append(c.Settings, scheduler.Setting{
		Name: row.name, Value: w.text(), File: r.at.File, Line: r.at.Line, Apply: apply,
	})
}

// param reads a PARAM line.
func (r *reader) param(name string, w *word) {
	row := find(params, name)
	if row == nil {
		if r.isIgnored(w.Name) {
			return
		}
		r.fail("there is no %q%s", w.Name, suggest(w.Name, paramNames()))
		return
	}
	if _, again := r.file.setParams[row.name]; again {
		r.warn("PARAM%s has already been set; the value here applies", row.name)
	}
	r.file.setParams[row.name] = r.at
	if apply := value(r, row, w); apply != nil {
		apply(&r.file.Params)
	}
}

// value checks the value of a word according to its row and returns the function
// that applies it, or nil after an error.
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
		if w.Name == "PARAMcluster" || strings.Contains(text, "://") {
			text = redisurl.Mask(text)
		}
		r.fail("%s=%q: %v%s", w.Name, text, err, bareHint(w))
		return nil
	}
	return apply
}

func unclosedHint(w *word) string {
	if before, found := strings.CutSuffix(strings.TrimRight(w.raw(), blanks), `\`); found && before != w.raw() {
		return `; a backslash that continues it must be the last character of the line`
	}
	return "; to continue it on the next line, end the line with a backslash"
}

// bareHint explains characters that do not end a bare value.
func bareHint(w *word) string {
	switch text := w.text(); {
	case w.quoted():
		return ""
	case strings.Contains(text, ";"):
		return `; keywords have blanks between them, not ";"`
	case strings.Contains(text, "#"):
		return `; a comment after a value needs a blank before its "#"`
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
