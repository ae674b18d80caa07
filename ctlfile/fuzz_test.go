package ctlfile

import (
	"io"
	"strings"
	"testing"
)

// FuzzAddress: a quad that is accepted and written again is the same, and what is
// quoted is read back as one word.
func FuzzAddress(f *testing.F) {
	f.Add("smtp ((mx1)(mx2 mx3)) bob@example.net 0")
	f.Add(`local - "|cmd ""x \" y" 501 more`)
	f.Add("local - a\\ b -1")
	f.Fuzz(func(t *testing.T, text string) {
		if a, reason := parseAddress(text); reason == "" {
			if again, reason := parseAddress(a.String()); again != a || reason != "" {
				t.Errorf("%q is read as %q, and then as %q, %s", text, a, again, reason)
			}
		}
		if quoted, err := Quote(text); err == nil {
			if word, rest, ok := CutWord(quoted); !ok || rest != "" || word != quoted {
				t.Errorf("%q is quoted as %q and read as %q, %q", text, quoted, word, rest)
			}
		}
	})
}

// FuzzDSN reads any N line: no value has a control character, and xtext is at most
// as long as what it encodes.
func FuzzDSN(f *testing.F) {
	f.Add("NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;bob+40example.net BY=3600;RT")
	f.Add("BY=-999999999;N notify=never,delay ORCPT=;+ +4 +zz\tRET=a\x01b")
	f.Fuzz(func(t *testing.T, dsn string) {
		for _, key := range []string{"NOTIFY", "ORCPT", "BY", "RET", "ENVID"} {
			if value, _ := DSNWord(dsn, key); strings.ContainsFunc(value, isControl) {
				t.Errorf("%s is %q", key, value)
			}
		}
		if by := ParseDeliverBy(dsn); !by.Given && by != (DeliverBy{}) {
			t.Errorf("%q is read as %v", dsn, by)
		}
		set := ParseNotify(dsn)
		if set == 0 || ParseNotify("NOTIFY="+set.String()) != set {
			t.Errorf("%q is read as %v", dsn, set)
		}
		if kind, address := DSNAddress(dsn); len(kind)+len(address) > len(dsn) {
			t.Errorf("%q is read as %q, %q", dsn, kind, address)
		}
	})
}

// FuzzReadHeader: the header is whole lines of the message, and the whole message
// can still be read.
func FuzzReadHeader(f *testing.F) {
	f.Add("From: a\r\nSubject: b\r\n c\r\n\r\nbody")
	f.Add("From: a\nnot a header\n")
	f.Add(" folded\n: x\n\x00: y\n")
	f.Fuzz(func(t *testing.T, text string) {
		header, body, complete, err := ReadHeader(strings.NewReader(text))
		if err != nil {
			return
		}
		all, err := io.ReadAll(complete)
		if err != nil || string(all) != text {
			t.Errorf("of %q %q is left, %v", text, all, err)
		}
		if body < 0 || body > int64(len(text)) || int64(len(header)) > body+1 {
			t.Errorf("the header of %q is %q, its body begins at %d", text, header, body)
		}
		if strings.ContainsRune(header, 0) || strings.Contains(header, "\n\n") || header != "" && !strings.HasSuffix(header, "\n") {
			t.Errorf("the header of %q is %q", text, header)
		}
	})
}
