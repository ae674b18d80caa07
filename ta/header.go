package ta

import (
	"iter"
	"strings"
)

// HeaderFields yields the fields of a header, each by its name and with all of
// its text: the name, continuations and line ends. What is no field comes as
// one that has no name.
func HeaderFields(header string) iter.Seq2[string, string] {
	return func(yield func(name, text string) bool) {
		for header != "" {
			end := 0
			for {
				n := strings.IndexByte(header[end:], '\n')
				if n < 0 {
					end = len(header)
					break
				}
				end += n + 1
				if end == len(header) || header[end] != ' ' && header[end] != '\t' {
					break
				}
			}
			name, _, ok := strings.Cut(header[:end], ":")
			if !ok {
				name = ""
			}
			if !yield(strings.TrimRight(name, " \t"), header[:end]) {
				return
			}
			header = header[end:]
		}
	}
}

// FieldValue is the value in the text of a field, on one line.
func FieldValue(text string) string {
	_, value, _ := strings.Cut(text, ":")
	return unfold(value)
}

// WithoutField is a header without the fields of a name, in any case.
func WithoutField(header, name string) string {
	var b strings.Builder
	for n, text := range HeaderFields(header) {
		if !strings.EqualFold(n, name) {
			b.WriteString(text)
		}
	}
	return b.String()
}

// fieldValue is the value of the first field of a name, on one line; "" if
// there is none.
func fieldValue(header, name string) string {
	for n, text := range HeaderFields(header) {
		if strings.EqualFold(n, name) {
			return FieldValue(text)
		}
	}
	return ""
}

var unfolder = strings.NewReplacer("\r", "", "\n", "")

func unfold(value string) string { return strings.TrimSpace(unfolder.Replace(value)) }
