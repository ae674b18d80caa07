package mailq

import (
	"reflect"
	"strings"
	"testing"

	"zsched/scheduler/view"
)

// FuzzWords: what Quote writes is one word and the same.
func FuzzWords(f *testing.F) {
	f.Add("a b", "rest")
	f.Add("\"\\\x00\xff", "")
	f.Fuzz(func(t *testing.T, word, after string) {
		quoted := Quote(word)
		if strings.ContainsAny(quoted, "\n\r\x00\t") {
			t.Fatalf("%q breaks a line", quoted)
		}
		got, rest, ok, err := CutWord(quoted + " " + after)
		if err != nil || !ok || got != word || rest != TrimBlanks(after) {
			t.Errorf("%q came back as %q, then %q, %v", word, got, rest, err)
		}
		if read, _, _, err := CutWord(word); err == nil {
			if again, _, _, err := CutWord(Quote(read)); err != nil || again != read {
				t.Errorf("%q read as %q, and again %q, %v", word, read, again, err)
			}
		}
	})
}

// FuzzSelection: a selection that is accepted is written and read as the same.
func FuzzSelection(f *testing.F) {
	f.Add(`channel=smtp host="a b" sender=<> reason=*x* older=1d2h younger=90`)
	f.Add(`host=a=b`)
	f.Add(`thread=smtp/x thread="a b/c" msg=12 msg=S12x sender=eve`)
	f.Fuzz(func(t *testing.T, text string) {
		sel, err := ParseSelection(text)
		if err != nil {
			return
		}
		if reflect.DeepEqual(sel, Selection{}) {
			t.Errorf("%q selects everything", text)
		}
		again, err := ParseSelection(sel.String())
		if err != nil || !reflect.DeepEqual(again, sel) {
			t.Errorf("%q: %+v, again %+v, %v", text, sel, again, err)
		}
	})
}

// FuzzOrder: so is an order, but for blanks at the ends of its reason.
func FuzzOrder(f *testing.F) {
	for line := range orders() {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\n\r\x00") {
			return // no line of a client
		}
		verb, rest := CutRaw(line)
		if view.Verb(verb).Info().Verb == "" {
			return
		}
		o, _, err := ParseOrder(view.Verb(verb), rest)
		if err != nil || o.Message == "" && o.Thread == nil && o.Where == nil {
			return
		}
		verb, rest = CutRaw(o.String())
		again, _, err := ParseOrder(view.Verb(verb), rest)
		o.Because = TrimBlanks(OneReply(o.Because))
		if err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%q: %+v, again %+v, %v", line, o, again, err)
		}
	})
}
