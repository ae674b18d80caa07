package sm

import (
	"fmt"
	"strings"
)

// Template is an argument before its references are replaced.
type Template struct {
	pieces []piece
}

// piece is text, or a reference to what a message knows: 'g', 'h', 'u' or 'U'.
type piece struct {
	text string
	ref  byte // 0: text
}

// readTemplate reads an argument. References to ZENV are replaced now.
func readTemplate(w word, zenv func(string) (string, bool)) (t Template, problem *Problem) {
	bad := func(i int, format string, args ...any) (Template, *Problem) {
		return Template{}, &Problem{Col: w.col + i, Text: fmt.Sprintf(format, args...)}
	}
	for i := 0; i < len(w.text); {
		rest := w.text[i:]
		switch n := strings.IndexByte(rest, '$'); {
		case n < 0:
			t.text(rest)
			i = len(w.text)
		case n > 0:
			t.text(rest[:n])
			i += n
		case len(rest) == 1:
			return bad(i, "nothing after $ ($$ is a dollar sign)")
		case rest[1] == '$':
			t.text("$")
			i += 2
		case strings.IndexByte("ghuU", rest[1]) >= 0:
			t.pieces = append(t.pieces, piece{ref: rest[1]})
			i += 2
		case rest[1] == '{':
			name, _, closed := strings.Cut(rest[2:], "}")
			value, ok := zenv(name)
			if !closed {
				return bad(i, "${ without }")
			}
			if !ok {
				return bad(i, "%q is not set in zmailer.conf", name)
			}
			t.text(value)
			i += len(name) + 3
		default:
			return bad(i, "$%c is not known: there are $g, $h, $u, $U and ${NAME}", []rune(rest[1:])[0])
		}
	}
	return t, nil
}

func (t *Template) text(s string) { t.pieces = append(t.pieces, piece{text: s}) }

// refers says that the argument names one of the references in set.
func (t *Template) refers(set string) bool {
	for _, p := range t.pieces {
		if p.ref != 0 && strings.IndexByte(set, p.ref) >= 0 {
			return true
		}
	}
	return false
}

// address is what references stand for.
type address struct {
	sender, host, user string
}

func (t *Template) expand(a address) string {
	var b strings.Builder
	for _, p := range t.pieces {
		switch p.ref {
		case 'g':
			b.WriteString(a.sender)
		case 'h':
			b.WriteString(a.host)
		case 'u':
			b.WriteString(a.user)
		case 'U':
			b.WriteString(strings.ToLower(a.user))
		default:
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// optional says that an address, and not the one who wrote the file, would
// make the argument one that begins with a dash.
func (t *Template) optional(a address) bool {
	return len(t.pieces) > 0 && t.pieces[0].ref != 0 && strings.HasPrefix(t.expand(a), "-")
}

// unsafe says why a program must not see an address: it could be taken for an
// option, or for more than one line of what the program reads. "" is safe.
func (m *Mailer) unsafe(a address) string {
	for _, s := range []string{a.sender, a.host, a.user} {
		if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return "an address has a control character in it"
		}
	}
	for i := range m.Args {
		if i > 0 && m.Args[i].optional(a) {
			return "an address begins with a dash where the program would take it for an option"
		}
	}
	return ""
}

// argv is the program's arguments for addresses with one sender and host. An
// argument with the user in it comes once for each of them.
func (m *Mailer) argv(all []address) []string {
	argv := []string{m.Args[0].expand(all[0])}
	switch {
	case m.Flags&PassF != 0:
		argv = append(argv, "-f", all[0].sender)
	case m.Flags&PassR != 0:
		argv = append(argv, "-r", all[0].sender)
	}
	for _, t := range m.Args[1:] {
		if !t.refers("uU") {
			argv = append(argv, t.expand(all[0]))
			continue
		}
		for _, a := range all {
			argv = append(argv, t.expand(a))
		}
	}
	return argv
}

// unquote takes the quotes and the backslashes of an address away.
func unquote(s string) string {
	if !strings.ContainsAny(s, `"\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			continue
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
