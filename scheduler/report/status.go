package report

// The delivery status: the part of a notice that programs read (RFC 3464
// section 2).

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/emersion/go-message/textproto"

	"zsched/ctlfile"
)

// add adds a field before the others, as the library does. A field without a value is
// left out.
func add(h *textproto.Header, name, value string) {
	if value = toASCII(clip(oneLine(value), maxField)); value != "" {
		h.Add(name, value)
	}
}

// deliveryStatus returns the body of the second part.
func (n *Notice) deliveryStatus() ([]byte, error) {
	var b bytes.Buffer
	var message textproto.Header
	add(&message, "X-Spool-Id", n.SpoolID)
	add(&message, "Arrival-Date", n.ArrivedAt.Format(dateLayout))
	add(&message, "Reporting-MTA", "dns; "+n.Host)
	add(&message, "Original-Envelope-Id", n.EnvelopeID)
	if err := textproto.WriteHeader(&b, message); err != nil {
		return nil, fmt.Errorf("delivery status: %w", err)
	}
	for i := range n.Recipients {
		if err := textproto.WriteHeader(&b, n.Recipients[i].fields()); err != nil {
			return nil, fmt.Errorf("delivery status of %q: %w", n.Recipients[i].Address, err)
		}
	}
	// There is an empty line between groups, but none after the last.
	return bytes.TrimSuffix(b.Bytes(), []byte("\r\n")), nil
}

// fields returns the fields of one recipient, the last first.
func (r *Recipient) fields() (h textproto.Header) {
	if r.Action == Delayed && !r.RetryUntil.IsZero() {
		add(&h, "Will-Retry-Until", r.RetryUntil.Format(dateLayout))
	}
	if !r.LastAttempt.IsZero() {
		add(&h, "Last-Attempt-Date", r.LastAttempt.Format(dateLayout))
	}
	if typed(r.Diagnostic) {
		add(&h, "Diagnostic-Code", r.Diagnostic)
	}
	if remote := r.Remote; remote != "" {
		if !typed(remote) {
			remote = "dns; " + remote
		}
		add(&h, "Remote-MTA", remote)
	}
	add(&h, "Status", r.status())
	add(&h, "Action", r.Action.String())
	kind := ""
	if !strings.Contains(r.Address, "@") || strings.HasPrefix(r.Address, "ns:") {
		kind = "x-local"
	}
	add(&h, "Final-Recipient", typedAddress(kind, oneLine(r.Address)))
	if kind, address := r.original(); address != "" {
		add(&h, "Original-Recipient", typedAddress(kind, address))
	}
	return h
}

// original returns the type and the address of the ORCPT word, decoded.
func (r *Recipient) original() (kind, address string) {
	kind, address = ctlfile.DSNAddress(r.Original)
	return strings.ToLower(oneLine(kind)), oneLine(decodeUTF8Address(kind, address))
}

// typed reports whether a value begins with a type and a semicolon.
func typed(s string) bool {
	kind, _, found := strings.Cut(s, ";")
	return found && kind != "" && !strings.ContainsAny(strings.TrimSpace(kind), " \t()")
}

// typedAddress returns an address with its type. The kind "" stands for the type of
// a mail address: rfc822, or utf-8 if the address is not ASCII.
func typedAddress(kind, address string) string {
	if !isASCII(address) || kind == "utf-8" {
		return "utf-8; " + encodeUTF8Address(address)
	}
	if kind == "" {
		kind = "rfc822"
	}
	return kind + "; " + address
}

// encodeUTF8Address encodes an address as utf-8-addr-xtext (RFC 6533 section 3):
// what is not visible ASCII becomes \x{HEX}.
func encodeUTF8Address(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > ' ' && r < 0x7f && r != '\\' && r != '+' && r != '=' {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\x{%02X}`, r)
		}
	}
	return b.String()
}

// decodeUTF8Address decodes an address of the type utf-8.
func decodeUTF8Address(kind, s string) string {
	if !strings.EqualFold(kind, "utf-8") || !strings.Contains(s, `\x{`) {
		return s
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, `\x{`)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		digits, after, closed := strings.Cut(rest, "}")
		var r rune
		if _, err := fmt.Sscanf(digits, "%x", &r); !closed || len(digits) > 6 || err != nil {
			b.WriteString(`\x{` + rest)
			return b.String()
		}
		b.WriteRune(r)
		s = after
	}
}

// status returns the enhanced status code. Its class is that of the action: a
// failure may also have class 4, which says that the last problem was a
// temporary one (an expired recipient).
func (r *Recipient) status() string {
	code := statusCode(r.Status)
	switch {
	case r.Action == Failed && code != "" && code[0] != '2':
		return code
	case r.Action == Failed:
		return "5.0.0"
	case r.Action == Delayed && code != "" && code[0] == '4':
		return code
	case r.Action == Delayed && code != "" && code[0] == '5':
		// Some agents report 5.x.x for a recipient that they try again.
		return "4" + code[1:]
	case r.Action == Delayed:
		return "4.4.7"
	case code != "" && code[0] == '2':
		return code
	}
	return "2.0.0"
}

// statusCode returns the status code that s begins with, or "": one digit for the
// class, and up to three digits each for the subject and the detail.
func statusCode(s string) string {
	s = strings.TrimSpace(s)
	end := 0
	for end < len(s) && (s[end] == '.' || '0' <= s[end] && s[end] <= '9') {
		end++
	}
	parts := strings.Split(s[:end], ".")
	if len(parts) != 3 || !strings.Contains("245", parts[0]) || len(parts[0]) != 1 {
		return ""
	}
	for _, part := range parts[1:] {
		if len(part) < 1 || len(part) > 3 {
			return ""
		}
	}
	return s[:end]
}
