package smtp

import (
	"strings"
	"testing"
)

// The examples of RFC 3492 section 7.1 that need no preparation, and spellings
// that mapping and normalisation make one.
func TestDomainsBeyondASCII(t *testing.T) {
	for in, want := range map[string]string{
		"Bücher.example": "xn--bcher-kva.example",
		"他们为什么不说中文":      "xn--ihqwcrb4cv8a8dqg056pqjye",
		"почемужеонинеговорятпорусски": "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l",
		"3年b組金八先生":                   "xn--3b-ww4c5e180e575a65lsy2b",
		"ひとつ屋根の下2":                   "xn--2-u9tlzr9756bt3uc0v",
		"example.ORG.":               "example.org",
		"bu\u0308cher.example":       "xn--bcher-kva.example", // a letter and its accent
		"BU\u0308CHER.example":       "xn--bcher-kva.example",
		"ｂücher。example":             "xn--bcher-kva.example", // wide forms
		"XN--Bcher-KVA.example":      "xn--bcher-kva.example",
		"faß.example":                "xn--fa-hia.example", // IDNA2008 keeps it apart from fass
		"_dmarc.a--b.bücher.example": "_dmarc.a--b.xn--bcher-kva.example",
		"_mta_sts.example":           "_mta_sts.example",
	} {
		if got, err := asciiDomain(in); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "a b", "a@b", strings.Repeat("a", 64), strings.Repeat("a.", 130), "\xff.example", "(x",
		"a\u200bb\u202e.example", "bü cher.example", "ü\uff08x.example", "a\x7f.example", "bü..example"} {
		if got, err := asciiDomain(in); err == nil {
			t.Errorf("%q is %q", in, got)
		}
	}
}
