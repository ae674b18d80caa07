package mime

// This file reads the fields of headers, and makes headers 7-bit (RFC 2047, 2231).

import (
	"iter"
	"mime"
	"net/mail"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Fields yields the name and the whole text of each field of a header. The text
// includes the name, continuations and line ends. A line that is not a field has
// an empty name.
func Fields(header string) iter.Seq2[string, string] {
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

// WithoutField returns a header without the fields of that name. It ignores case.
func WithoutField(header, name string) string {
	var b strings.Builder
	for n, text := range Fields(header) {
		if !strings.EqualFold(n, name) {
			b.WriteString(text)
		}
	}
	return b.String()
}

// firstValue is the value of the first field of that name, on one line; "" if
// there is none.
func firstValue(header, name string) string {
	for n, text := range Fields(header) {
		if strings.EqualFold(n, name) {
			return FieldValue(text)
		}
	}
	return ""
}

var unfolder = strings.NewReplacer("\r", "", "\n", "")

func unfold(value string) string { return strings.TrimSpace(unfolder.Replace(value)) }

// has8 reports whether there is a byte above 127.
func has8[T string | []byte](s T) bool {
	i := 0
	for ; i+8 <= len(s); i += 8 { // every message passes through here
		if (s[i]|s[i+1]|s[i+2]|s[i+3]|s[i+4]|s[i+5]|s[i+6]|s[i+7])&0x80 != 0 {
			return true
		}
	}
	for ; i < len(s); i++ {
		if s[i] > 0x7f {
			return true
		}
	}
	return false
}

// header7 makes a header 7-bit: text becomes encoded words (RFC 2047), and
// parameters of content fields are encoded by RFC 2231. What is left, in
// addresses and the like, has no 7-bit form and becomes "?".
func header7(header string) string {
	if !has8(header) {
		return header
	}
	var b strings.Builder
	for _, f := range Fields(header) {
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
		return withQuestionMarks(field)
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
		return name + ":" + withQuestionMarks(value)
	}
	return name + ":" + text7(value)
}

// withQuestionMarks writes "?" for each byte above 127.
func withQuestionMarks(s string) string {
	if !has8(s) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if c > 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

// eightBitWords are neighbouring words with bytes above 127. They are encoded
// together, because a blank between encoded words does not count.
var eightBitWords = regexp.MustCompile(`\S*[^\x00-\x7f]\S*(?:\s+\S*[^\x00-\x7f]\S*)*`)

func text7(value string) string {
	charset := "utf-8"
	if !utf8.ValidString(value) {
		charset = "unknown-8bit"
	}
	return eightBitWords.ReplaceAllStringFunc(value, func(words string) string {
		return fold(mime.QEncoding.Encode(charset, unfolder.Replace(words)))
	})
}

// fold puts each encoded word on a line of its own.
func fold(words string) string { return strings.ReplaceAll(words, "?= =?", "?=\n =?") }

func addresses7(value string) string {
	list, err := mail.ParseAddressList(unfold(value))
	if err != nil || !utf8.ValidString(value) {
		return withQuestionMarks(value)
	}
	words := make([]string, len(list))
	for i, a := range list {
		if has8(a.Address) {
			return withQuestionMarks(value)
		}
		words[i] = fold(a.String())
	}
	return " " + strings.Join(words, ",\n\t") + "\n"
}

func parameters7(value string) string {
	mediaType, params, err := mime.ParseMediaType(unfold(value))
	if err != nil || !utf8.ValidString(value) {
		return withQuestionMarks(value)
	}
	text := mime.FormatMediaType(mediaType, params)
	if text == "" || has8(text) {
		return withQuestionMarks(value)
	}
	return " " + strings.ReplaceAll(text, "; ", ";\n\t") + "\n"
}
