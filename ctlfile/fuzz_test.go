package ctlfile

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
			if value, _ := DSNWord(dsn, key); strings.ContainsFunc(value, IsControl) {
				t.Errorf("%s is %q", key, value)
			}
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

// FuzzIndex reads any control file by its index: a file that has one can be parsed, and each
// recipient is the same.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(manyHosts(3, "")))
	f.Add([]byte("i 1\ns smtp a b 0\nr           smtp a u 0\nN NOTIFY=NEVER\nz\nR HDRS\ne x\nr+12        smtp b u 0\nm\nA: b\n\nd 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		fd, err := unix.MemfdCreate("control", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if _, err := unix.Pwrite(fd, text, 0); err != nil {
			t.Fatal(err)
		}
		x := newIndex(fd, int64(len(text)))
		if x == nil {
			return
		}
		whole, err := Parse(text)
		if err != nil {
			t.Fatalf("%q has an index: %v", text, err)
		}
		for i := range whole.Recipients {
			want := whole.Recipients[i]
			found, err := x.read(fd, want.Host, x.placesAt(want.Host))
			at := -1
			if err == nil {
				at = found.Find(want.Offset)
			}
			if at < 0 || found.Recipients[at] != want || found.Headers(at) != whole.Headers(i) || !slices.Equal(found.Senders, whole.Senders) {
				t.Errorf("%q: found %+v, %v, want %+v", text, found, err, want)
			}
		}
	})
}
