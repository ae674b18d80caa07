// Package header reads and changes the header of a message as text: fields keep
// every byte, and so their order, folding and spelling.
//
//	Received: from client.example by mx.example     one field: a line and
//		id S836142; Sat, 21 Nov 2026 03:53:25 +0000   the folded lines after it
//	Bcc: hidden@example.org
//
// It also finds the addresses in fields such as To (RFC 5322 section 3.4).
package header

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"
)

// Fields are the fields of a header in their order. Each ends with a line end.
type Fields []string

// Split divides a header into its fields. The text must have no empty line. The fields
// share the memory of the text: a header of many folded lines costs no more than another.
func Split(text string) Fields {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	var fields Fields
	start, end := 0, 0 // of the present field
	for line := range strings.Lines(text) {
		if end > start && line[0] != ' ' && line[0] != '\t' {
			fields = append(fields, text[start:end])
			start = end
		}
		end += len(line)
	}
	if end > start {
		fields = append(fields, text[start:end])
	}
	return fields
}

// String returns the whole header.
func (f Fields) String() string { return strings.Join(f, "") }

// name returns the name of a field, in the spelling of the message.
func name(field string) string {
	n, _, _ := strings.Cut(field, ":")
	return strings.TrimRight(n, " \t")
}

// Is reports whether a field has one of these names. It ignores case.
func Is(field string, names ...string) bool {
	n := name(field)
	return slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(n, other) })
}

// Has reports whether there is a field of one of these names.
func (f Fields) Has(names ...string) bool {
	return slices.ContainsFunc(f, func(field string) bool { return Is(field, names...) })
}

// Count returns the number of fields with this name.
func (f Fields) Count(name string) int {
	n := 0
	for _, field := range f {
		if Is(field, name) {
			n++
		}
	}
	return n
}

// Without returns the fields that have none of these names.
func (f Fields) Without(names ...string) Fields {
	return slices.DeleteFunc(slices.Clone(f), func(field string) bool { return Is(field, names...) })
}

// Value returns the unfolded value of the first field with this name, or "".
func (f Fields) Value(name string) string {
	for _, field := range f {
		if Is(field, name) {
			return Value(field)
		}
	}
	return ""
}

// Value returns the value of a field, on one line.
func Value(field string) string {
	_, v, _ := strings.Cut(field, ":")
	return strings.TrimSpace(strings.NewReplacer("\r", "", "\n", "").Replace(v))
}

// Addresses returns the addresses in all fields of these names, without display
// names and comments. A name without a domain is an address too. The error names
// the field.
func (f Fields) Addresses(names ...string) ([]string, error) {
	var found []string
	for _, field := range f {
		if !Is(field, names...) {
			continue
		}
		list, err := AddressList(Value(field))
		if err != nil {
			return nil, fmt.Errorf("header field %s: %w", name(field), err)
		}
		found = append(found, list...)
	}
	return found, nil
}

// AddressList returns the addresses of a list such as "Bob <bob@example.org>,
// root, staff: a@b, c@d;".
func AddressList(list string) ([]string, error) {
	var found []string
	for _, part := range splitList(list) {
		address, err := parseAddress(part)
		if err != nil {
			return nil, fmt.Errorf("address %.200q: %w", part, err)
		}
		found = append(found, address)
	}
	return found, nil
}

func parseAddress(part string) (string, error) {
	parsed, err := mail.ParseAddress(part)
	if err == nil {
		// net/mail removes the quotes of a local part; here they are needed.
		at := strings.LastIndexByte(parsed.Address, '@')
		return QuoteLocal(parsed.Address[:at]) + parsed.Address[at:], nil
	}
	// net/mail accepts neither a name without a domain nor an IPv6 address
	// literal.
	if open := strings.LastIndexByte(part, '<'); open >= 0 {
		part = strings.TrimSuffix(part[open+1:], ">")
	}
	part = strings.TrimSpace(part)
	local, domain, full := strings.Cut(part, "@")
	literal := strings.HasPrefix(domain, "[") && strings.HasSuffix(domain, "]")
	if local == "" || strings.ContainsAny(local, specials) || full && !literal ||
		literal && strings.ContainsAny(domain[1:len(domain)-1], specials[:len(specials)-1]) {
		return "", err
	}
	return part, nil
}

// specials are the characters that an atom cannot contain; the last is the colon.
const specials = " \t\r\n<>()[];@\\,\":"

// QuoteLocal puts a local part in double quotes if it is not a dot-atom.
func QuoteLocal(local string) string {
	if local != "" && !strings.ContainsAny(local, " \t\"\\()<>[]:;@,") &&
		!strings.HasPrefix(local, ".") && !strings.HasSuffix(local, ".") && !strings.Contains(local, "..") {
		return local
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(local) + `"`
}

// splitList divides a list at its commas, outside quotes, comments, angle
// brackets and domain literals. It replaces a group with its members.
func splitList(list string) []string {
	var parts []string
	var part strings.Builder
	end := func() {
		if s := strings.TrimSpace(part.String()); s != "" {
			parts = append(parts, s)
		}
		part.Reset()
	}
	quoted, comment, bracket := false, 0, false
	for i := 0; i < len(list); i++ {
		c := list[i]
		switch {
		case c == '\\' && i+1 < len(list) && (quoted || comment > 0):
			if comment == 0 {
				part.WriteString(list[i : i+2])
			}
			i++
			continue
		case comment > 0:
			if c == '(' {
				comment++
			} else if c == ')' {
				comment--
			}
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '(':
			comment++
			continue
		case c == '<' || c == '[':
			bracket = true
		case c == '>' || c == ']':
			bracket = false
		case bracket:
		case c == ',' || c == ';':
			end()
			continue
		case c == ':':
			part.Reset() // the name of a group
			continue
		}
		part.WriteByte(c)
	}
	end()
	return parts
}
