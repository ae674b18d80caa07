package report

// The form: what a postmaster wants notices to say (MAILSHARE/forms/delivery).

import (
	"net/mail"
	"slices"
	"strings"

	"zsched/ctlfile"
	"zsched/queue"
)

// Form is a template for notices. Its file has lines "HDR field" for header
// fields, "ADR field" for header fields whose address gets a copy, and "SUB
// Subject: text" for the subject, then an empty line and the text for people.
type Form struct {
	Fields  []string // "Name: value", without the reservedFields
	Subject string   // "" for the built-in one
	Copies  []string // plain addresses of the ADR lines
	Text    string   // "" for the built-in one
}

// reservedFields are the fields that a form cannot set, in lower case; fields that
// begin with "content-" are reserved too. The address of a Bcc field gets a copy,
// but the notice has no such field.
var reservedFields = []string{"bcc", "to", "subject", "in-reply-to", "references", "auto-submitted", "mime-version"}

// ParseForm reads a form. It ignores what it does not understand, because a
// notice with a poor text is better than none.
func ParseForm(text string) *Form {
	head, body, _ := strings.Cut(strings.ReplaceAll(text, "\r\n", "\n"), "\n\n")
	if rest, ok := strings.CutPrefix(text, "\n"); ok {
		head, body = "", rest
	}
	f := &Form{Text: body}
	for line := range strings.SplitSeq(head, "\n") {
		if len(line) < 4 {
			continue
		}
		field := oneLine(line[4:])
		name, value, ok := strings.Cut(field, ":")
		switch word := line[:4]; {
		case !ok || !isFieldName(name):
		case word == "SUB ":
			f.Subject = strings.TrimSpace(value)
		case word == "ADR ":
			f.Copies = append(f.Copies, addressesIn(value)...)
			f.addField(name, value)
		case word == "HDR ":
			f.addField(name, value)
		}
	}
	return f
}

func (f *Form) addField(name, value string) {
	lower := strings.ToLower(name)
	if !slices.Contains(reservedFields, lower) && !strings.HasPrefix(lower, "content-") {
		f.Fields = append(f.Fields, name+": "+strings.TrimSpace(value))
	}
}

// sets reports whether the form has a field of that name.
func (f *Form) sets(name string) bool {
	return slices.ContainsFunc(f.Fields, func(field string) bool {
		have, _, _ := strings.Cut(field, ":")
		return strings.EqualFold(have, name)
	})
}

// maxFieldName bounds the name of a field in bytes. The library that writes headers folds the value beside
// the name, and needs room for it.
const maxFieldName = 60

func isFieldName(s string) bool {
	return s != "" && len(s) <= maxFieldName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// addressesIn returns the plain addresses in the value of a field, in any syntax
// that such a field may have: "a@b", "<a@b>", "A B <a@b>, c@d".
func addressesIn(value string) (addresses []string) {
	value = strings.TrimSpace(value)
	if bare := ctlfile.Unbracketed(value); queue.PlainAddress(bare) {
		return []string{bare}
	}
	list, _ := mail.ParseAddressList(value)
	for _, a := range list {
		if queue.PlainAddress(a.Address) {
			addresses = append(addresses, a.Address)
		}
	}
	return addresses
}
