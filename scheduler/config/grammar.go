package config

import (
	"strings"

	"github.com/alecthomas/participle/v2"
	"github.com/alecthomas/participle/v2/lexer"
)

// The grammar accepts every sequence of bytes, so that the reader meets each
// mistake with its place and goes on to the next.
//
// Only a line break before the first column means anything. One that leads,
// perhaps over empty lines and comments, to an indented word is white space;
// so is a carriage return. "#" begins a comment where a word could begin and
// ends a name, but is an ordinary byte in a value. A quoted value ends at the
// next quote; a backslash at the end of its line carries it on to the next.
var tokens = lexer.MustSimple([]lexer.SimpleRule{
	{Name: "Indent", Pattern: `(?:\n[ \t\r]*(?:#[^\n]*)?)*\n[ \t\r]+`},
	{Name: "Newline", Pattern: `(?:\n[ \t\r]*(?:#[^\n]*)?)*\n`},
	{Name: "Quoted", Pattern: `[ \t\r]*=[ \t\r]*"(?:\\\r?\n|[^"\n])*"`},
	{Name: "Unclosed", Pattern: `[ \t\r]*=[ \t\r]*"(?:\\\r?\n|[^"\n])*`},
	{Name: "Bare", Pattern: `[ \t\r]*=[ \t\r]*[^ \t\r\n]*`},
	{Name: "Blank", Pattern: `[ \t\r]+`},
	{Name: "Comment", Pattern: `#[^\n]*`},
	{Name: "Name", Pattern: `[^ \t\r\n=#]+`},
})

// sheet is a whole file.
type sheet struct {
	Sections []*section `parser:"( Newline | @@ )*"`
}

// section is what one first column begins: a pattern or a PARAM, and the
// indented words below it.
type section struct {
	Words []*word `parser:"@@+"`
}

// word is a name, a name with a value, or a value astray. Value is as in the
// file, from the blanks before "=" on; it is empty if there is no "=".
type word struct {
	Pos, EndPos lexer.Position

	Name  string `parser:"( @Name"`
	Value string `parser:"  @( Quoted | Unclosed | Bare )? | @( Quoted | Unclosed | Bare ) )"`
}

var grammar = participle.MustBuild[sheet](
	participle.Lexer(tokens),
	participle.Elide("Indent", "Blank", "Comment"),
)

const blanks = " \t\r"

// raw is the value without the blanks and the "=" before it.
func (w *word) raw() string {
	v := strings.TrimLeft(w.Value, blanks)
	return strings.TrimLeft(strings.TrimPrefix(v, "="), blanks)
}

func (w *word) quoted() bool { return strings.HasPrefix(w.raw(), `"`) }

// closed reports whether a quoted value has its second quote.
func (w *word) closed() bool { return strings.Count(w.raw(), `"`) == 2 }

// text is the value as the admin meant it.
func (w *word) text() string {
	v := w.raw()
	if !w.quoted() {
		return v
	}
	v = strings.ReplaceAll(v, "\\\r\n", "")
	v = strings.ReplaceAll(v, "\\\n", "")
	return strings.Trim(v, `"`)
}

// whole reports whether the value, if there is one, stands on the name's line.
func (w *word) whole() bool {
	return w.Name == "" || w.Value == "" || w.Pos.Offset+len(w.Name)+len(w.Value) == w.EndPos.Offset
}

// follows reports whether the word stands right after another, with nothing
// between them.
func (w *word) follows(before *word) bool {
	return before != nil && before.Pos.Offset+len(before.Name)+len(before.Value) == w.Pos.Offset
}
