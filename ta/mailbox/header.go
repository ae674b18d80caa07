package mailbox

import (
	"iter"
	"strings"
)

// fields yields the fields of a header: the name, the value on one line, and
// the text with all its lines.
func fields(header string) iter.Seq2[string, [2]string] {
	return func(yield func(string, [2]string) bool) {
		for header != "" {
			end := 0
			for {
				next := strings.IndexByte(header[end:], '\n')
				if next < 0 {
					end = len(header)
					break
				}
				end += next + 1
				if end == len(header) || header[end] != ' ' && header[end] != '\t' {
					break
				}
			}
			text := header[:end]
			header = header[end:]
			name, value, _ := strings.Cut(text, ":")
			value = strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(value))
			if !yield(strings.TrimRight(name, " \t"), [2]string{value, text}) {
				return
			}
		}
	}
}

// without is a header without the fields of one name.
func without(header, name string) string {
	var b strings.Builder
	for n, f := range fields(header) {
		if !strings.EqualFold(n, name) {
			b.WriteString(f[1])
		}
	}
	if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") {
		return s + "\n"
	}
	return b.String()
}

// loops says that a message was delivered to this address before.
func loops(header, address string) bool {
	if address == "" {
		return false
	}
	for n, f := range fields(header) {
		if strings.EqualFold(n, "Delivered-To") && strings.EqualFold(f[0], address) {
			return true
		}
	}
	return false
}
