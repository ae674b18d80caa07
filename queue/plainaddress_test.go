package queue

import (
	"testing"
)

func TestPlainAddress(t *testing.T) {
	for _, plain := range []string{
		"bob", "bob@example.org", "<bob@example.org>", "MAILER-DAEMON", "a.b+c_d-e=f@x.example", "a..b.@docomo.example",
		"SRS0=x/y=a=b.example=c@d.example", "host!bob", "a!b!c@x", "x%y@z.example", "user/folder@x", "dl@[192.0.2.99]",
		"dl@[IPv6:::1]", "grüße@bücher.example", "gr\xfc\xdfe@x", "-", "7", "o'hara@x", "#1@x", "a~b@x",
		`"bob with space"@smtp.example`, `"a\"b"@smtp.example`, `"bob"`, `"last, first"@x`,
	} {
		if !PlainAddress(plain) {
			t.Errorf("%q is refused", plain)
		}
	}
	for _, other := range []string{
		"", "<>", "|cmd", "/path", "<|cmd>", "</path>", "(c)|cmd", "@a:|cmd", "g:|cmd;", ":include:/x", "<bob", "bob>",
		`"|cmd"`, `"|cmd x"@localhost`, `|"cmd"`, `"/path"`, `"/a b"@x`, `":include:/x"`, `"(c)|cmd"`, `"@a:|cmd"`, `"g:|cmd;"`,
		`\|cmd`, `"\|cmd"`, `"\\|cmd"`, `"\/x"`, `"\\/x"`, `"\"|cmd"`, `""|cmd`, `"a"|cmd`, `"a" |cmd`, `"a\`, `"a`, `"`, `""`, `""@x`,
		"bob(c)", "bob (c)|cmd", "bob |cmd", "bob|cmd", "bob,|cmd", "bob;", "a <|cmd>", "<bob><|cmd>", "<<|cmd>>", "`cmd`",
		"host!|cmd", "host!/path", "host%/path", "|cmd%localhost", "|cmd@localhost", "/C=fi/A=x/@x.400", "~root/x", "../x", ".x",
		"@relay.example:x@y", "@a", "a@", "a@b@c", "a@b c", "a@(c)b", "a@b:c", "a@[b", "a@[]", "a@b]", "a@|b", "a@b/c",
		"bob\n", "bob\r", "bob\x00", "bob\tx", "a\x7f", "bob@x\nto <|cmd>", `"a` + "\n" + `b"@x`, `"a@b"@c`, "\\", " bob", "bob ",
	} {
		if PlainAddress(other) {
			t.Errorf("%q is taken", other)
		}
	}
}
