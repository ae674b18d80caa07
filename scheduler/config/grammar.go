package config

// The grammar splits scheduler.cf into sections and words (scheduler.cf(5), Form).

import (
	"strings"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar accepts every sequence of bytes, so that the reader can report
// each mistake at its place and go on to the next one.
//
// A line break is significant only if the next word begins in the first column.
// A line break that is followed by an indented word, perhaps after empty lines
// and comments, is white space; so is a carriage return. "#" begins a comment
// where a word can begin, and it ends a name, but it is an ordinary byte in a
// value. A quoted value ends at the next quote; a backslash at the end of a line
// continues it on the next line. A reply rule has a form of its own, and takes the rest of
// its line.
var tokens = lexer.MustSimple([]lexer.SimpleRule{
	{Name: "Indent", Pattern: `(?:\n[ \t\r]*(?:#[^\n]*)?)*\n[ \t\r]+`},
	{Name: "Newline", Pattern: `(?:\n[ \t\r]*(?:#[^\n]*)?)*\n`},
	{Name: "Quoted", Pattern: `[ \t\r]*=[ \t\r]*"(?:\\\r?\n|[^"\n])*"`},
	{Name: "Unclosed", Pattern: `[ \t\r]*=[ \t\r]*"(?:\\\r?\n|[^"\n])*`},
	{Name: "Bare", Pattern: `[ \t\r]*=[ \t\r]*[^ \t\r\n]*`},
	{Name: "Blank", Pattern: `[ \t\r]+`},
	{Name: "Comment", Pattern: `#[^\n]*`},
	{Name: "Reply", Pattern: `reply[ \t]+[^ \t\r\n#=]+[ \t][^\n]*`},
	{Name: "Name", Pattern: `[^ \t\r\n=#]+`},
})

// file is the syntax of a complete scheduler.cf.
type file struct {
	Sections []*section `parser:"( Newline | Indent | @@ )*"`
}

// section is a reply rule, or a pattern or a PARAM in the first column and the indented
// words after it.
type section struct {
	Pos   lexer.Position
	Reply string  `parser:"@Reply"`
	Words []*word `parser:"| @@ ( Indent | @@ )*"`
}

// word is a name, a name with a value, or a value without a name. Value is the
// text of the file from the blanks before "=" to the end of the word; it is empty
// if there is no "=".
type word struct {
	Pos, EndPos lexer.Position

	Name  string `parser:"( @Name"`
	Value string `parser:"  @( Quoted | Unclosed | Bare )? | @( Quoted | Unclosed | Bare ) )"`
}

var grammar = participle.MustBuild[file](
	participle.Lexer(tokens),
	participle.Elide("Blank", "Comment"),
)

const blanks = " \t\r"

// raw returns the value without the "=" and the blanks around it.
func (w *word) raw() string {
	v := strings.TrimLeft(w.Value, blanks)
	return strings.TrimLeft(strings.TrimPrefix(v, "="), blanks)
}

func (w *word) quoted() bool { return strings.HasPrefix(w.raw(), `"`) }

// closed reports whether a quoted value has its closing quote.
func (w *word) closed() bool { return strings.Count(w.raw(), `"`) == 2 }

// text returns the value without quotes and with its lines joined.
func (w *word) text() string {
	v := w.raw()
	if !w.quoted() {
		return v
	}
	v = strings.ReplaceAll(v, "\\\r\n", "")
	v = strings.ReplaceAll(v, "\\\n", "")
	return strings.Trim(v, `"`)
}
