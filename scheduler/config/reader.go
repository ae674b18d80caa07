package config

// The reader turns a parsed scheduler.cf into clauses and parameters.

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"

	"zsched/internal/redisurl"
	"zsched/internal/zenv"
	"zsched/scheduler/rule"
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
	copied          map[int]bool    // empty clauses, which have the settings of another one
}

// maxClauses bounds the clauses, because each is compared with the others.
const maxClauses = 10_000

// Parse reads the text of a configuration file. Errors and warnings call it
// name. If the text has mistakes, the error is an Errors.
func Parse(name string, data []byte, system System) (*File, error) {
	r := parse(name, data, system)
	if len(r.errors) > 0 {
		return nil, r.errors
	}
	sortByPlace(r.file.Warnings)
	return r.file, nil
}

// parse reads a text and returns the reader with what it found and all errors, in
// the order of the file.
func parse(name string, data []byte, system System) *reader {
	c := &rule.Config{Env: system.Zenv.Known()}
	r := &reader{
		system: system,
		file:   &File{Name: name, Scheduler: c, setParams: make(map[string]Place)},
		warned: make(map[string]bool),
		copied: make(map[int]bool),
	}
	c.Defaults = r.defaults()
	r.file.Params = r.paramDefaults()
	for _, s := range r.sections(name, data) {
		r.section(s)
	}
	r.fillEmpty()
	if len(c.Clauses) <= maxClauses {
		r.checkClauses()
	}
	if len(c.Clauses) == 0 && len(r.errors) == 0 {
		r.at = Place{name, 1, 1}
		r.fail("there is no clause in the file")
	}
	p := &r.file.Params
	c.Defaults.AgentTimeout, c.ReportInterval = p.AgentTimeout, p.ReportInterval
	c.Shares, c.Replies = p.Shares.Weights, append(c.Replies, p.Replies.Rules...)
	sortByPlace(r.errors)
	return r
}

// sections splits a text into its sections. The grammar refuses nothing but a file with too
// many words.
func (r *reader) sections(name string, data []byte) []*section {
	// Some editors write a byte order mark.
	parsed, err := grammar.ParseString(name, strings.TrimPrefix(string(data), "\ufeff"))
	if err == nil {
		return parsed.Sections
	}
	place := Place{name, 1, 1}
	if at, ok := err.(participle.Error); ok {
		place.Line, place.Column = at.Position().Line, at.Position().Column
	}
	r.errors = append(r.errors, Error{place, "the file has too many words"})
	return nil
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
func (r *reader) defaults() rule.Params {
	v := rule.Params{UID: -1, GID: -1}
	applyDefaults(r, keywords, &v)
	return v
}

func (r *reader) paramDefaults() Params {
	var v Params
	applyDefaults(r, params, &v)
	if address, set := r.system.Zenv.Lookup("SCHEDULERNOTIFY"); set {
		var err error
		if v.NotifySock, err = parseUNIX(address); err != nil && address != "" {
			r.at = Place{r.file.Name, 1, 1}
			r.warn("SCHEDULERNOTIFY=%q of zmailer.conf is not used: %v", address, err)
		}
	}
	return v
}

// applyDefaults applies the defaults of a table. It leaves out a default that
// does not exist on this machine, such as a group.
func applyDefaults(r *reader, table []row, to any) {
	r.readingDefaults = true
	defer func() { r.readingDefaults = false }()
	for i := range table {
		row := &table[i]
		if row.preset == "" {
			continue
		}
		if value, err := row.kind.parse(row.preset, r); err == nil {
			row.set(to, value)
		}
	}
}

func (r *reader) section(s *section) {
	if r.at = r.place(s.Pos); s.Reply != "" {
		r.reply(&r.file.Scheduler.Replies, s)
		return
	}
	head, words := s.Words[0], s.Words[1:]
	name, isParam := cutPrefixFold(head.Name, "PARAM")
	switch {
	case s.Pos.Column > 1: // the words go on after a reply rule, or begin the file
		words = s.Words
	case isParam:
		r.param(name, head)
	default:
		r.pattern(head)
	}
	if len(words) > 0 && len(r.file.Scheduler.Clauses) == 0 {
		r.at = r.place(words[0].Pos)
		r.fail("%q comes before the first pattern; a clause begins with a pattern in the first column", words[0].Name)
		return
	}
	for _, w := range words {
		r.at = r.place(w.Pos)
		r.setting(w)
	}
}

func (r *reader) place(at lexer.Position) Place { return Place{r.file.Name, at.Line, at.Column} }

// literal matches a pattern that looks like an address literal.
var literal = regexp.MustCompile(`^\[([0-9.]{7,}|(?i:IPv6):.*)\]$`)

// pattern begins a clause.
func (r *reader) pattern(head *word) {
	pattern := head.Name
	switch isKeyword := find(keywords, pattern) != nil; {
	case strings.Contains(pattern, "/") && strings.HasPrefix(head.Value, "=") && !head.quoted():
		pattern += head.Value // a host may contain "="
	case head.Value != "":
		r.fail("a pattern has no value; if %q is a keyword, indent it", pattern)
	case isKeyword:
		r.warn("the pattern %q is the name of a keyword; if it is meant as one, indent it", pattern)
	}
	channel, host, found := strings.Cut(pattern, "/")
	if !found || host == "" {
		host = "*"
	}
	if literal.MatchString(host) {
		r.warn("the pattern %q stands for one character, not for the address; write \\[ and \\]", host)
	}
	clauses := &r.file.Scheduler.Clauses
	if len(*clauses) == maxClauses {
		r.fail("there are more than %d clauses", maxClauses)
	}
	*clauses = append(*clauses, rule.Clause{
		Channel: channel, Host: host, File: r.at.File, Line: r.at.Line,
	})
}

// setting adds one keyword to the last clause.
func (r *reader) setting(w *word) {
	row := find(keywords, w.Name)
	if row == nil {
		switch {
		case r.isIgnored(w.Name):
		case w.Name == "":
			r.fail("there is no keyword before %q", w.raw())
		default:
			r.fail("unknown keyword %q%s", w.Name, insteadOf(w.Name))
		}
		return
	}
	value, ok := r.value(row, w)
	if !ok {
		return
	}
	clauses := r.file.Scheduler.Clauses
	c := &clauses[len(clauses)-1]
	if c.Sets(row.name) {
		r.warn("this clause has already set %s; the value here applies", row.name)
	}
	c.Settings = append(c.Settings, rule.Setting{
		Name: row.name, Value: w.text(), File: r.at.File, Line: r.at.Line,
		Apply: func(p *rule.Params) { row.set(p, value) },
	})
}

// fillEmpty gives every empty clause the settings of the next clause that has
// any. It neither fills */* clauses nor copies from them.
func (r *reader) fillEmpty() {
	var next []rule.Setting
	for i, c := range slices.Backward(r.file.Scheduler.Clauses) {
		switch {
		case c.MatchesAll():
		case len(c.Settings) > 0:
			next = c.Settings
		default:
			r.file.Scheduler.Clauses[i].Settings = slices.Clone(next)
			r.copied[i] = true
		}
	}
}

// param reads a PARAM line.
func (r *reader) param(name string, w *word) {
	row := find(params, name)
	if row == nil {
		if !r.isIgnored(w.Name) {
			r.fail("there is no parameter %q%s", w.Name, insteadOf(w.Name))
		}
		return
	}
	if _, again := r.file.setParams[row.name]; again {
		r.warn("PARAM%s has already been set; the value here applies", row.name)
	}
	r.file.setParams[row.name] = r.at
	if value, ok := r.value(row, w); ok {
		row.set(&r.file.Params, value)
	}
}

// value returns the value of a word according to its row. It is not ok after an error.
func (r *reader) value(row *row, w *word) (value any, ok bool) {
	if w.quoted() && !w.closed() {
		r.fail("%s: the quote that opens here is not closed; a backslash at the very end of a line continues the value on the next", w.Name)
		return nil, false
	}
	text := strings.TrimSpace(w.text())
	if text == "" && row.kind.form != formFlag {
		r.fail("%s needs a value (%s)", w.Name, row.kind.form)
		return nil, false
	}
	value, err := row.kind.parse(text, r)
	if err != nil {
		if w.Name == "PARAMcluster" || strings.Contains(text, "://") {
			text = redisurl.Mask(text)
		}
		r.fail("%s=%q: %v", w.Name, text, err)
		return nil, false
	}
	return value, true
}
