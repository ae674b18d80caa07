package ctlfile

import (
	"net/netip"
	"testing"
)

func TestSourceSurvivesWriting(t *testing.T) {
	for want, s := range map[string]Source{
		"":                                     {},
		"SOURCE=192.0.2.0/24 CLIENT=192.0.2.7": {Name: ClientSource(netip.MustParseAddr("192.0.2.7")), Client: "192.0.2.7"},
		"SOURCE=2001:db8:1::/48":               {Name: ClientSource(netip.MustParseAddr("2001:db8:1:ffff::7"))},
		"SOURCE=login:ann+20b SMTPUTF8":        {Name: LoginSource("ann b"), UTF8: true},
		"SOURCE=uid:1000":                      {Name: UserSource(1000)},
	} {
		equal(t, "value", s.String(), want)
		if got := ParseSource(want); got != s {
			t.Errorf("%q is read as %+v", want, got)
		}
	}
}

func TestUnknownWordsOfASourceAreIgnored(t *testing.T) {
	for value, want := range map[string]Source{
		"NO-IDENT-SERVICE[2]":                        {},
		"X SOURCE=uid:1 NEW=2 source=uid:3 smtputf8": {Name: "uid:1"},
		"SOURCE=a\x01b CLIENT=":                      {},
	} {
		if got := ParseSource(value); got != want {
			t.Errorf("%q is read as %+v", value, got)
		}
	}
}

// The S line stays with the message wherever its control file is written anew.
func TestSourceIsKept(t *testing.T) {
	f := mustParse(t, "@ 0x00000007\ni 7\no 9\nl <m>\nS SOURCE=uid:1000\nS SOURCE=uid:1\ns smtp h alice 0\nr           smtp h bob 0\nm\n\n")
	equal(t, "source", f.Source, "SOURCE=uid:1000")
	c := f.Extract([]int{0})
	c.Name = "8"
	text, err := c.Encode()
	equal(t, "error", err, nil)
	equal(t, "file", string(text), "@ 0x00000007\ni 8\no 9\nl <m>\nS SOURCE=uid:1000\ne alice\ns smtp h alice 0\nr           smtp h bob 0\nm\n\n")
	c.Source = "SOURCE=uid:1\nr"
	if _, err := c.Encode(); err == nil {
		t.Error("a line end in the source is written")
	}
}
