package ctlfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// A control file made anew of all recipients of the router's reads the same,
// though its lines may stand elsewhere.
func TestRecontentsOfEveryone(t *testing.T) {
	files, err := filepath.Glob("testdata/router/dirhash0/*.ctl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := mustParse(t, string(text))
		d := f.Extract(everyone(f))
		d.Name = f.Name
		again, err := d.Encode()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		g := mustParse(t, string(again))
		equal(t, file, sense(g), sense(f))
		if !reflect.DeepEqual(g.Obsoletes, f.Obsoletes) || len(g.Triggers) > 0 {
			t.Errorf("%s: x %q, want %q; T %q", file, g.Obsoletes, f.Obsoletes, g.Triggers)
		}
	}
}

// sense is what a control file means, without its offsets.
func sense(f *File) string {
	var b strings.Builder
	b.WriteString(f.Name + f.LogID + f.Verbose + f.ErrorTo + "\n")
	for i, r := range f.Recipients {
		b.WriteString(f.Senders[r.Sender].String() + " > " + r.Address.String() + "\n" +
			r.DSN + "\n" + r.Ret + "\n" + r.EnvID + "\n" + f.Headers(i) + string(rune('0'+r.Class)) + "\n")
	}
	return b.String()
}

func TestRecontentsOfSome(t *testing.T) {
	f := mustParse(t, "@ 0x00000007\nv ../public/v_1\ni 7\no 9\nl <m>\nx <old>\nT x.example\n"+
		"e list@x\ns smtp h alice 0 more\nr+          smtp h bob 1\nX-          1 smtp h carol 2 more\nN NOTIFY=NEVER\n"+
		"e list@x\ns smtp h dora\nr           smtp h eve\nR FULL\nn id\nm\nA: 1\n\n"+
		"e list@x\ns smtp h dora 0\nr           smtp h fay 0\nm\nA: 2\n\n")
	d := f.Extract([]int{1, 2})
	d.Name = "8"
	text, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "control file", string(text), "@ 0x00000007\nv ../public/v_1\ni 8\no 9\nl <m>\nx <old>\n"+
		"e list@x\ns smtp h alice 0\nX           1 smtp h carol 2\nN NOTIFY=NEVER\n"+
		"e list@x\ns smtp h dora 65534\nr           smtp h eve 65534\nR FULL\nn id\nm\nA: 1\n\n")
}
