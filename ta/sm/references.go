package sm

// References: $g, $h, $u, $U and ${NAME} in the arguments of a mailer, and the
// addresses that they stand for.

import (
	"errors"
	"fmt"
	"strings"

	"zsched/ta"
)

// Argument is an argument of a program, with references that are replaced for
// each message.
type Argument struct {
	parts []part
}

// part is text, or a reference to an address: 'g', 'h', 'u' or 'U'.
type part struct {
	text string
	ref  byte // 0: text
}

// parseArgument parses an argument and replaces references of the form ${NAME}.
func parseArgument(word string, zenv func(string) (string, bool)) (arg Argument, err error) {
	for rest := word; rest != ""; {
		before, after, found := strings.Cut(rest, "$")
		arg.text(before)
		switch {
		case !found:
			return arg, nil
		case after == "":
			return arg, errors.New("nothing after $ ($$ is a dollar sign)")
		case after[0] == '$':
			arg.text("$")
			rest = after[1:]
		case strings.IndexByte("ghuU", after[0]) >= 0:
			arg.parts = append(arg.parts, part{ref: after[0]})
			rest = after[1:]
		case after[0] == '{':
			name, behind, closed := strings.Cut(after[1:], "}")
			value, ok := zenv(name)
			if !closed {
				return arg, errors.New("${ without }")
			}
			if !ok {
				return arg, fmt.Errorf("%q is not set in zmailer.conf", name)
			}
			arg.text(value)
			rest = behind
		default:
			return arg, fmt.Errorf("$%c is not known: there are $g, $h, $u, $U and ${NAME}", []rune(after)[0])
		}
	}
	return arg, nil
}

func (arg *Argument) text(s string) {
	if s != "" {
		arg.parts = append(arg.parts, part{text: s})
	}
}

// refers reports whether the argument has one of the references in set.
func (arg *Argument) refers(set string) bool {
	for _, p := range arg.parts {
		if p.ref != 0 && strings.IndexByte(set, p.ref) >= 0 {
			return true
		}
	}
	return false
}

// address has the values of the references $g, $h and $u for a recipient.
type address struct {
	sender, host, user string
}

// address returns the values of the references for a recipient.
func (a *Agent) address(r *ta.Recipient) address {
	value := func(s string) string {
		if s == "-" { // an empty word of the control file
			return ""
		}
		if a.Mailer.Flags&StripQuotes != 0 {
			return unquote(s)
		}
		return s
	}
	return address{sender: value(senderOf(r)), host: value(r.Host), user: value(r.User)}
}

// senderOf is the sender as in the control file, "<>" for the null sender.
func senderOf(r *ta.Recipient) string {
	if r.From.Channel == "error" {
		return "<>"
	}
	return r.From.User
}

func (arg *Argument) expand(a address) string {
	var b strings.Builder
	for _, p := range arg.parts {
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

// isOption reports whether an address, and not the author of the file, makes the
// argument begin with a dash.
func (arg *Argument) isOption(a address) bool {
	return len(arg.parts) > 0 && arg.parts[0].ref != 0 && strings.HasPrefix(arg.expand(a), "-")
}

// unsafe returns the reason why the program must not get a recipient: an address could
// be taken for an option, or for more than one line. It returns "" for a safe one.
func (m *Mailer) unsafe(a address) string {
	for _, s := range []string{a.sender, a.host, a.user} {
		if strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return "an address has a control character in it"
		}
	}
	for i := range m.Args {
		if i > 0 && m.Args[i].isOption(a) {
			return "an address begins with a dash where the program would take it for an option"
		}
	}
	return ""
}

// argv returns the program's arguments for addresses with the same sender and host.
// An argument that refers to the user is repeated for each address.
func (m *Mailer) argv(all []address) []string {
	argv := []string{m.Args[0].expand(all[0])}
	switch {
	case m.Flags&PassF != 0:
		argv = append(argv, "-f", all[0].sender)
	case m.Flags&PassR != 0:
		argv = append(argv, "-r", all[0].sender)
	}
	for _, arg := range m.Args[1:] {
		if !arg.refers("uU") {
			argv = append(argv, arg.expand(all[0]))
			continue
		}
		for _, a := range all {
			argv = append(argv, arg.expand(a))
		}
	}
	return argv
}

// unquote removes the quotes and the backslashes of an address.
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
