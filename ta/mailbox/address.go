package mailbox

import "strings"

type kind uint8

const (
	toUser kind = iota
	toFile
	toCommand
)

// address is a user word without its quotes.
type address struct {
	kind kind
	// name is the command, the file's path or the user; of the latter not what
	// stands behind the last @, which is the domain.
	name, domain string
}

// parseAddress reads the user word of a quad.
func parseAddress(word string) address {
	text := strings.TrimLeft(unquote(word), `\`)
	if command, ok := strings.CutPrefix(text, "|"); ok {
		// |"command" is another way to write "|command".
		return address{kind: toCommand, name: strings.TrimSpace(unquote(command))}
	}
	if strings.HasPrefix(text, "/") {
		return address{kind: toFile, name: text}
	}
	a := address{name: text}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		a.name, a.domain = text[:at], text[at+1:]
	}
	a.name = strings.TrimLeft(unquote(a.name), `\`)
	return a
}

// unquote takes away double quotes that enclose all of s, and the backslashes
// by which a router protects quotes and backslashes within.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			if i != len(s)-1 {
				return s // it ends before the word does
			}
			return b.String()
		case '\\':
			if i++; i == len(s) {
				return s
			}
		}
		b.WriteByte(s[i])
	}
	return s
}

// lower maps ASCII alone, as user names are compared.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
