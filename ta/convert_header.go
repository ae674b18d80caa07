package ta

import (
	"mime"
	"net/mail"
	"strings"
	"unicode/utf8"
)

// has8 says that there is a byte above 127.
func has8[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] > 0x7f {
			return true
		}
	}
	return false
}

// header7 makes a header 7-bit: text becomes encoded words (RFC 2047),
// parameters of content fields are encoded by RFC 2231. What is left, in
// addresses and the like, has no 7-bit form and becomes "?".
func header7(header string) string {
	var b strings.Builder
	for _, f := range HeaderFields(header) {
		if has8(f) {
			f = field7(f)
		}
		b.WriteString(f)
	}
	return b.String()
}

func field7(field string) string {
	name, value, ok := strings.Cut(field, ":")
	if !ok || has8(name) {
		return mark8(field)
	}
	switch strings.ToLower(strings.TrimRight(name, " \t")) {
	case "from", "sender", "reply-to", "to", "cc", "bcc", "errors-to",
		"resent-from", "resent-sender", "resent-reply-to", "resent-to", "resent-cc", "resent-bcc",
		"disposition-notification-to", "return-receipt-to":
		return name + ":" + addresses7(value)
	case "content-type", "content-disposition":
		return name + ":" + parameters7(value)
	case "received", "date", "resent-date", "message-id", "resent-message-id", "in-reply-to", "references",
		"mime-version", "content-transfer-encoding", "content-id", "return-path", "dkim-signature":
		return name + ":" + mark8(value)
	}
	return name + ":" + text7(value)
}

// mark8 puts a question mark for each byte that cannot stay.
func mark8(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c > 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

// text7 encodes the words of a text that need it. Neighbours go together,
// because blanks between encoded words do not count.
func text7(value string) string {
	charset := "utf-8"
	if !utf8.ValidString(value) {
		charset = "unknown-8bit"
	}
	var b strings.Builder
	for value != "" {
		gap := len(value) - len(strings.TrimLeft(value, " \t\r\n"))
		b.WriteString(value[:gap])
		value = value[gap:]
		run, end := 0, 0 // end of the words to encode, of the word looked at
		for first := true; ; first = false {
			n := strings.IndexAny(value[end:], " \t\r\n")
			if n < 0 {
				n = len(value) - end
			}
			if !has8(value[end : end+n]) {
				if first {
					run = end + n
				}
				break
			}
			run = end + n
			end = run + len(value[run:]) - len(strings.TrimLeft(value[run:], " \t\r\n"))
			if end == len(value) {
				break
			}
		}
		word := value[:run]
		if has8(word) {
			word = mime.QEncoding.Encode(charset, unfolder.Replace(word))
			word = strings.ReplaceAll(word, "?= =?", "?=\n =?")
		}
		b.WriteString(word)
		value = value[run:]
	}
	return b.String()
}

func addresses7(value string) string {
	list, err := mail.ParseAddressList(unfold(value))
	if err != nil || !utf8.ValidString(value) {
		return mark8(value)
	}
	words := make([]string, len(list))
	for i, a := range list {
		if has8(a.Address) {
			return mark8(value)
		}
		words[i] = strings.ReplaceAll(a.String(), "?= =?", "?=\n =?")
	}
	return " " + strings.Join(words, ",\n\t") + "\n"
}

func parameters7(value string) string {
	kind, params, err := mime.ParseMediaType(unfold(value))
	if err != nil || !utf8.ValidString(value) {
		return mark8(value)
	}
	if value = mime.FormatMediaType(kind, params); value == "" || has8(value) {
		return mark8(value)
	}
	return " " + strings.ReplaceAll(value, "; ", ";\n\t") + "\n"
}
