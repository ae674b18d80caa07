package header

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

const text = "Received: from a by b\n\tid 1; now\nTo: Bob <bob@example.org>,\n root\nSUBJECT : x\nBcc: c@d\nReceived: by c\n"

func TestFieldsStayAsTheyWere(t *testing.T) {
	f := Split(text)
	if f.String() != text || len(f) != 5 {
		t.Fatalf("%q", f)
	}
	if f.Count("received") != 2 || f.Value("subject") != "x" || !f.Has("Message-ID", "bcc") || f.Has("Date") {
		t.Errorf("%q", f)
	}
	if g := f.Without("Bcc", "Return-Path"); len(g) != 4 || g.Has("Bcc") || len(f) != 5 {
		t.Errorf("%q", g)
	}
	if list, err := f.Addresses("To", "Bcc"); err != nil || !slices.Equal(list, []string{"bob@example.org", "root", "c@d"}) {
		t.Errorf("%q, %v", list, err)
	}
}

// TestSplitOfManyFoldedLines: the memory that a header takes, and with it the time, does
// not grow with the square of its lines.
func TestSplitOfManyFoldedLines(t *testing.T) {
	long := " folded\nTo: x\n" + strings.Repeat("\n y", 250_000) // no line end at the end
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f := Split(long)
	runtime.ReadMemStats(&after)
	if f.String() != long+"\n" || len(f) < 2 || f[0] != " folded\n" {
		t.Errorf("%d fields of %d bytes, the first %.20q", len(f), len(f.String()), f[0])
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 20*uint64(len(long)) {
		t.Errorf("it took %d bytes for a header of %d", took, len(long))
	}
}

func TestAddressesOfALine(t *testing.T) {
	for list, want := range map[string]string{
		`"Smith, Al" <al@b.c>, x@y (not, two)`: "al@b.c x@y",
		`staff: a@b, c@d;, root`:               "a@b c@d root",
		`undisclosed-recipients:;`:             "",
		`"two words"@x.y`:                      `"two words"@x.y`,
		`u@[192.0.2.1], v@[IPv6:2001:db8::1]`:  "u@[192.0.2.1] v@[IPv6:2001:db8::1]",
		`Root <root>, <>`:                      "error",
		`two words`:                            "error",
		`a@b c@d`:                              "error",
		`=?utf-8?q?J=C3=B6rg?= <j@x.y>`:        "j@x.y",
		``:                                     "",
	} {
		got, err := AddressList(list)
		if (err != nil) != (want == "error") || err == nil && strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", list, got, err)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(text)
	f.Add("To: \"a\\\n b")
	f.Fuzz(func(t *testing.T, s string) {
		fields := Split(s)
		if got := fields.String(); got != s && got != s+"\n" {
			t.Errorf("%q became %q", s, got)
		}
		list, err := fields.Addresses("To", "Cc")
		for _, a := range list {
			if err != nil || strings.ContainsAny(a, "\n\r") {
				t.Errorf("address %q, %v", a, err)
			}
		}
	})
}
