package ctlfile

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// worked is the example of the package comment.
const worked = `@ 0x00000007
i 258367
o 412
l <m1@example.org>
e alice@example.org
s smtp mx.example.org alice@example.org 0
r           smtp example.net bob@example.net 0
N NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@example.net
R HDRS
n env-77
r           local - "carol x" 501
m
Received: by mx
	id 1
Subject: x

`

// aFile is a control file with these recipient lines.
func aFile(group string) string {
	return "@ 0x00000007\ni 7\no 5\ns smtp mx.example a@example 0\n" + group + "m\nSubject: x\n\n"
}

func mustParse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

func malformed(t *testing.T, text string) *ParseError {
	t.Helper()
	f, err := Parse([]byte(text))
	var e *ParseError
	if !errors.As(err, &e) {
		t.Fatalf("Parse = %+v, %v; want a *ParseError\n%s", f, err, text)
	}
	return e
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

func TestParseWorkedExample(t *testing.T) {
	f := mustParse(t, worked)
	equal(t, "Flags", f.Flags, Supported)
	equal(t, "Name", f.Name, "258367")
	equal(t, "Body", f.Body, 412)
	equal(t, "MessageID", f.MessageID, "<m1@example.org>")
	equal(t, "ErrorTo", f.ErrorTo, "alice@example.org")
	equal(t, "NullSender", f.NullSender, false)
	equal(t, "Size", f.Size, 296)
	equal(t, "senders", len(f.Senders), 1)
	equal(t, "sender", f.Senders[0], Sender{Offset: 67, Address: Address{"smtp", "mx.example.org", "alice@example.org", "0"}, ErrorTo: "alice@example.org"})
	equal(t, "recipients", len(f.Recipients), 2)
	equal(t, "bob", f.Recipients[0], Recipient{
		Offset: 109, Tag: Open, Address: Address{"smtp", "example.net", "bob@example.net", "0"},
		Header: 262, HeaderEnd: 295, N: 156,
		DSN:    "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob@example.net",
		Notify: NotifySuccess | NotifyFailure, Ret: "HDRS", EnvID: "env-77",
	})
	equal(t, "carol", f.Recipients[1], Recipient{
		Offset: 226, Tag: Open, Address: Address{"local", "-", `"carol x"`, "501"},
		Header: 262, HeaderEnd: 295, N: -1, Notify: NotifyFailure,
	})
	equal(t, "headers", f.Headers(1), "Received: by mx\n\tid 1\nSubject: x\n")
	equal(t, "Find(226)", f.Find(226), 1)
	equal(t, "Find(227)", f.Find(227), -1)
}

func TestParseLockedAndDiagnosed(t *testing.T) {
	text := worked[:227] + "~ 23456" + worked[234:] +
		"d+226:262:-1::1047508710\tcarol\x01failed\x015.1.1 (no such user)\x01x-local; 500\x01\x01mailbox[23456]\tno such\ruser\n"
	f := mustParse(t, text)
	r := f.Recipients[1]
	equal(t, "tag", r.Tag, Locked)
	equal(t, "lock", r.Lock, "23456")
	equal(t, "PID", r.PID(), 23456)
	equal(t, "user", r.User, `"carol x"`)
	equal(t, "diagnostic", f.Diagnostics[0], Diagnostic{
		Offset: 296, Tag: Delivered, Recipient: 226, Header: 262, N: -1, At: time.Unix(1047508710, 0),
		Notary: "carol\x01failed\x015.1.1 (no such user)\x01x-local; 500\x01\x01mailbox[23456]",
		Text:   "no such\ruser",
	})
}

func TestEveryFieldLetterIsRead(t *testing.T) {
	f := mustParse(t, `@ 0x7
v ../public/v_alice
i 15582-7
o 0
l <l@example>
b ../public/other-body
e first@example
x <old@example>
x <older@example>
T example.net 192.0.2.1
T example.com
s local - alice 7
?unknown
D unknown
r           local - bob 7
M
--part

m
A: b

X           12 smtp mx1 carol 0
X           12 smtp mx2 carol 0
m

`)
	equal(t, "Name", f.Name, "15582-7")
	equal(t, "ErrorTo", f.ErrorTo, "first@example")
	equal(t, "Obsoletes", strings.Join(f.Obsoletes, " "), "<old@example> <older@example>")
	equal(t, "Triggers", strings.Join(f.Triggers, "|"), "example.net 192.0.2.1|example.com")
	equal(t, "recipients", len(f.Recipients), 3)
	equal(t, "class", f.Recipients[2].Class, 12)
	equal(t, "alternative", f.Recipients[2].Address, Address{"smtp", "mx2", "carol", "0"})
	equal(t, "first block", f.Headers(0), "A: b\n")
	equal(t, "empty block", f.Headers(2), "")
	equal(t, "empty block's end", f.Recipients[2].HeaderEnd, f.Recipients[2].Header)
}

func TestMalformedIsReportedWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		name, text, reason string
		line               int
	}{
		{"empty file", "", "no i line", 1},
		{"no message file", "@ 7\no 1\n", "no i line", 1},
		{"mail under a trigger", "T a\ns a - b 0\nr           a - b 0\nm\n\n", "no i line", 1},
		{"directory in the name", "i 1/../../etc\n", "not the name", 1},
		{"name without a number", "i passwd\n", "not the name", 1},
		{"number zero", "i 0\n", "not the name", 1},
		{"blank in the name", "i 7\thost\n", "not the name", 1},
		{"two names", "i 1\nl x\ni 2\n", `second message file, "2"; the first is "1"`, 3},
		{"nobody to deliver to", "i 1\no 2\ns a - b 0\nm\n\n", "no recipient", 1},
		{"body offset", "i 1\no -4\n", `"-4"`, 2},
		{"body offset too great", "o 9223372036854775808\n", "9223372036854775808", 1},
		{"flags in words", "@ seven\n", `"seven"`, 1},
		{"flags too late", aFile("r           a - b 0\n@ 3\n"), "after a recipient", 6},
		{"recipient before sender", "@ 7\ni 1\nr           a - b 0\n", "before any sender", 3},
		{"no host", aFile("r           local\n"), "host is missing", 5},
		{"no user", aFile("r           local -\n"), "user is missing", 5},
		{"no user, two blanks", aFile("r           local - \n"), "user is missing", 5},
		{"nothing", aFile("r           \n"), "channel is missing", 5},
		{"shorter than the fields", aFile("r     \n"), "too short", 5},
		{"no delay field", aFile("r       \n"), "too short", 5},
		{"endless channel", aFile("r           " + strings.Repeat("c", MaxWord+1) + " - carol 501\n"), "longer than 4096", 5},
		{"endless host", aFile("r           smtp " + strings.Repeat("h", MaxWord+1) + " carol 501\n"), "longer than 4096", 5},
		{"endless first of hosts", aFile("r           smtp ((" + strings.Repeat("h", MaxWord+1) + ")) carol 501\n"), "longer than 4096", 5},
		{"open quote", aFile("r           local - \"carol 501\n"), "open quote", 5},
		{"open backslash", aFile("r           local - carol\\\n"), "open quote or backslash", 5},
		{"unquoted blank in the user", aFile("r           local - carol x 501\n"), `"x" is not a number`, 5},
		{"unknown tag", aFile("r?          local - carol 501\n"), `tag '?'`, 5},
		{"sender's tag", aFile("s+local - carol 501\n"), `tag '+'`, 5},
		{"half a sender", aFile("s local -\n"), "user is missing", 5},
		{"class zero", aFile("X           0 local - carol 501\n"), "class number", 5},
		{"no class", aFile("X           local - carol 501\n"), "class number", 5},
		{"letter alone", "i 1\nr\n", "no tag", 2},
		{"N of nobody", aFile("N NOTIFY=NEVER\n"), "before any recipient", 5},
		{"text behind the block's letter", aFile("r           a - b 0\nm x\n"), "on the next line", 6},
		{"NUL", aFile("r           a - b 0\nl <\x00>\n"), "NUL", 6},
		{"cut in a line", aFile("r           a - b 0\n") + "l <abc", "no end", 9},
		{"cut in a block", "i 1\nm\nA: b\n", "without an empty line", 2},
		{"cut behind m", "i 1\nm", "next line", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := malformed(t, c.text)
			if !strings.Contains(e.Reason, c.reason) || e.Line != c.line || e.Unsupported != 0 {
				t.Errorf("%v; want %q in line %d", e, c.reason, c.line)
			}
			if before := c.text[:e.Offset]; strings.Count(before, "\n") != e.Line-1 ||
				before != "" && !strings.HasSuffix(before, "\n") {
				t.Errorf("byte %d does not start line %d", e.Offset, e.Line)
			}
		})
	}
}

// The old readers skipped the line after an empty one.
func TestEmptyLineOutsideABlockIsMalformed(t *testing.T) {
	e := malformed(t, "@ 0x7\n\ni 1\n")
	equal(t, "reason", e.Reason, "empty line")
	equal(t, "line", e.Line, 2)
	equal(t, "offset", e.Offset, 6)
}

// The old scheduler read the rest of the file as headers.
func TestBlockWithoutEndIsMalformed(t *testing.T) {
	for _, block := range []string{"m\n", "m\nA: b\n", "M\nA: b\n"} {
		e := malformed(t, "i 1\ns a - b 0\nr a - b 0\n"+block)
		equal(t, "line", e.Line, 4)
	}
}

// The old scheduler deleted a file of a later format.
func TestUnknownFormatIsToldFromMalformed(t *testing.T) {
	for flags, unknown := range map[string]Flags{"0x00000008": 8, "0x107": 0x100, "9": 8, "0x800000007": 0x800000000} {
		e := malformed(t, "@ "+flags+"\ni 1\nwhatever that\n\nformat has\n")
		equal(t, "Unsupported of "+flags, e.Unsupported, unknown)
	}
}

// In the old scheduler the s line overwrote the e line, so that Errors-To had no
// effect and list owners got no notices.
func TestErrorAddressIsTheLastErrorLine(t *testing.T) {
	const to = "r           smtp h u 0\n"
	for _, c := range []struct {
		name, group, want string
		null              bool
	}{
		{"no e line", to, "a@example", false},
		{"before the sender", "e x@example\ns smtp h b@example 0\n" + to, "x@example", false},
		{"behind the sender", "s smtp h b@example 0\n" + to + "e x@example\n", "x@example", false},
		{"last of two", "e x@example\ne y@example, z@example\n" + to, "y@example, z@example", false},
		{"header style", "e Rayan Z <rayan>\n" + to, "Rayan Z <rayan>", false},
		{"last sender", to + "s smtp h c@example 0\n" + to, "c@example", false},
		{"null sender", "e x@example\ns error <> <> 0\n" + to, "", true},
		{"not the null sender", "s errors <> <> 0\n" + to, "<>", false},
		{"null sender not the last", "s error <> <> 0\n" + to + "s smtp h b@example 0\n" + to, "b@example", false},
	} {
		f := mustParse(t, aFile(c.group))
		equal(t, c.name, f.ErrorTo, c.want)
		equal(t, c.name+": null", f.NullSender, c.null)
	}
}

// Old agents gave the N line of a recipient that was not theirs to another one;
// the old scheduler did so with that of a delivered recipient.
func TestDeliveryParametersBelongToTheRecipientBefore(t *testing.T) {
	for _, tag := range []string{" ", "~", "+", "-"} {
		f := mustParse(t, aFile("r           smtp a a 0\n"+
			"r"+tag+"          smtp b b 0\nN NOTIFY=NEVER\nR HDRS\nn id\n"+
			"X"+tag+"          1 smtp c c 0\nN NOTIFY=DELAY\n"+
			"r           smtp d d 0\n"))
		for i, want := range []Recipient{
			{Notify: NotifyFailure},
			{Notify: NotifyNever, DSN: "NOTIFY=NEVER", Ret: "HDRS", EnvID: "id"},
			{Notify: NotifyDelay, DSN: "NOTIFY=DELAY"},
			{Notify: NotifyFailure},
		} {
			r := f.Recipients[i]
			equal(t, tag+r.User, Recipient{Notify: r.Notify, DSN: r.DSN, Ret: r.Ret, EnvID: r.EnvID}, want)
			if r.N >= 0 {
				equal(t, "letter", f.text[r.N], 'N')
			}
		}
	}
}

func TestSecondNOfARecipientChangesNothing(t *testing.T) {
	f := mustParse(t, aFile("r           smtp a a 0\nN NOTIFY=SUCCESS\nN NOTIFY=NEVER\n"))
	equal(t, "Notify", f.Recipients[0].Notify, NotifySuccess)
}

// The old scheduler skipped lines with a tag that their letter cannot have.
func TestTaggedFieldIsSkipped(t *testing.T) {
	f := mustParse(t, aFile("l+<no@example>\nr           a - b 0\nN+NOTIFY=NEVER\nd~1:2:3::4\tn\tt\n"))
	equal(t, "MessageID", f.MessageID, "")
	equal(t, "N", f.Recipients[0].N, -1)
	equal(t, "diagnostics", len(f.Diagnostics), 0)
}

func TestFilesWithoutFormatFlags(t *testing.T) {
	for _, c := range []struct{ line, lock, channel string }{
		{"r local - rayan 7", "", "local"},
		{"r~23456   local - rayan 7", "23456", "local"}, // the manual's sample
		{"r~ 23456    local - rayan 7", "23456", "local"},
		{"r       local - rayan 7", "", "local"},
		{"r  local - rayan 7", "", "local"},
		{"r           local - rayan 7", "", "local"},
		{"r+  7806    local - rayan 7", "7806", "local"},
		{"r+  7806 123local - rayan 7", "7806", "local"},
	} {
		f := mustParse(t, "i 15582\no 60\ne Rayan <rayan>\ns local - rayan 7\n"+c.line+"\nm\nTo: rayan\n\n")
		r := f.Recipients[0]
		equal(t, c.line, r.Address, Address{c.channel, "-", "rayan", "7"})
		equal(t, "lock of "+c.line, r.Lock, c.lock)
	}
}

func TestFormatFlagsInEveryNotation(t *testing.T) {
	for value, want := range map[string]Flags{"0x00000007": 7, "0X3": 3, "7": 7, "07": 7, " 0x7 ": 7, "0": 0} {
		equal(t, value, mustParse(t, "@ "+value+"\ni 1\ns a - b 0\nr           a - b 0\nm\n\n").Flags, want)
	}
}

func TestPIDOfLocks(t *testing.T) {
	for field, want := range map[string]int{
		" 23456": 23456, "999999": MaxPID, "      ": 0, "     0": 0, "000007": 7, " 12x  ": 0, "    -1": 0, "abcdef": 0,
		"  2   ": 0, " 2345 ": 0, "23456 ": 23456, // torn, torn, and left-aligned as in the old manual
	} {
		f := mustParse(t, aFile("r~"+field+"    smtp h u 0\n"))
		equal(t, field, f.Recipients[0].PID(), want)
	}
}

func TestTriggerFile(t *testing.T) {
	f := mustParse(t, "T Example.NET 192.0.2.1\n")
	equal(t, "Name", f.Name, "")
	equal(t, "host", TriggerHost(f.Triggers[0]), "example.net")
	equal(t, "host alone", TriggerHost("Example.Com"), "example.com")
	equal(t, "Body", f.Body, -1)
	equal(t, "ErrorTo", f.ErrorTo, "")
}

func TestRecipientsWithoutHeaderBlock(t *testing.T) {
	f := mustParse(t, aFile("r           smtp a a 0\n")+"r           smtp b b 0\n")
	equal(t, "Header", f.Recipients[1].Header, -1)
	equal(t, "HeaderEnd", f.Recipients[1].HeaderEnd, -1)
	equal(t, "Headers", f.Headers(1), "")
	equal(t, "Sender", f.Recipients[1].Sender, 0)
}

// The old agents reserved room for a line in every four bytes.
func TestShortLines(t *testing.T) {
	f := mustParse(t, strings.Repeat("?\n", 1<<16)+aFile("r           smtp a a 0\n"))
	equal(t, "offset", f.Recipients[0].Offset, 1<<17+13+4+4+30)
}

func TestTooLargeIsRefused(t *testing.T) {
	_, err := Parse(make([]byte, MaxSize+1))
	var e *ParseError
	if !errors.As(err, &e) || !strings.Contains(e.Reason, "too large") {
		t.Error(err)
	}
}

// TestDLineThatAPowerCutErasedEndsTheFile: after a power cut a file can have the size
// that an append gave it, with NULs in place of the text.
func TestDLineThatAPowerCutErasedEndsTheFile(t *testing.T) {
	whole := worked
	if !strings.HasSuffix(whole, "\n") {
		whole += "\n"
	}
	before := mustParse(t, whole)
	for _, tail := range []string{"\x00\x00\x00", "d 1:2:3::4\tx\x00\x00", "\x00\x00lt\x01failed\ttext\nd 9:9:9::9\ty\tz\n"} {
		f := mustParse(t, whole+tail)
		if f.Torn != int64(len(whole)) || len(f.Diagnostics) != len(before.Diagnostics) || len(f.Recipients) != len(before.Recipients) {
			t.Errorf("%q: torn at %d of %d, %d d lines, %d recipients", tail, f.Torn, len(whole), len(f.Diagnostics), len(f.Recipients))
		}
	}
	// Elsewhere a NUL is no trace of an append.
	for _, text := range []string{strings.Replace(whole, "\nr", "\n\x00r", 1), whole + "r \x00", whole[:10] + "\x00" + whole[11:]} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
