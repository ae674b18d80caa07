package ctlfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// manyHosts is a control file with a recipient at each of n hosts.
func manyHosts(n int, more string) string {
	var b strings.Builder
	b.WriteString("@ 0x00000007\ni 15582\no 24\ns smtp mx.example alice@mx.example 0\n")
	for i := range n {
		fmt.Fprintf(&b, "r           smtp h%d.example bob@h%d.example 0\n", i, i)
	}
	return b.String() + more + "m\nSubject: x\n\n"
}

func openControl(t *testing.T, path string) int {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return int(file.Fd())
}

func writeControl(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c *Recent, fd int) (f *File, old bool, err error) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return c.Read(fd, st.Size)
}

func TestRecentReadsALargeFileOnce(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, text string
		kept       bool
	}{
		{"large", manyHosts(1000, ""), true},
		{"one recipient", strings.Replace(manyHosts(1, ""), "x\n", strings.Repeat("x", minRecent)+"\n", 1), false},
		{"small", manyHosts(10, ""), false},
		{"alternatives", manyHosts(1000, "X           1 smtp a.example bob 0\nX           1 smtp b.example bob 0\n"), false},
	} {
		var c Recent
		path := filepath.Join(dir, test.name)
		writeControl(t, path, test.text)
		first, old, err := read(t, &c, openControl(t, path))
		if err != nil || old {
			t.Fatalf("%s: the first Read returns %v, %v", test.name, old, err)
		}
		again, old, err := read(t, &c, openControl(t, path))
		if err != nil || old != test.kept || (again == first) != test.kept {
			t.Errorf("%s: the second Read returns %v, %v; want old %v", test.name, old, err, test.kept)
		}
		// Another file of that name.
		writeControl(t, path+".new", test.text)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		if _, old, err := read(t, &c, openControl(t, path)); old || err != nil {
			t.Errorf("%s: Read of another file returns %v, %v", test.name, old, err)
		}
	}
}

func TestRecentHasAnUpperBound(t *testing.T) {
	dir := t.TempDir()
	text := manyHosts(30_000, "")
	var c Recent
	for i := range 10 {
		path := filepath.Join(dir, fmt.Sprint(i))
		writeControl(t, path, text)
		if _, _, err := read(t, &c, openControl(t, path)); err != nil {
			t.Fatal(err)
		}
	}
	cost := int64(0)
	for _, e := range c.files {
		cost += e.cost
	}
	if cost > maxRecent || len(c.files) < 2 {
		t.Errorf("%d files of %d bytes are kept", len(c.files), cost)
	}
	if _, old, err := read(t, &c, openControl(t, filepath.Join(dir, "9"))); !old || err != nil {
		t.Errorf("the last file is not kept: %v", err)
	}
	if _, old, err := read(t, &c, openControl(t, filepath.Join(dir, "0"))); old || err != nil {
		t.Errorf("the first file is still kept: %v", err)
	}
}

func TestRefreshReadsTheStateAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "15582")
	writeControl(t, path, manyHosts(1000, ""))
	var c Recent
	fd := openControl(t, path)
	f, _, err := read(t, &c, fd)
	if err != nil {
		t.Fatal(err)
	}
	const i = 700
	offset := f.Recipients[i].Offset
	if err := SetDelays(fd, offset, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := Swap(fd, offset, Open, Locked, 4711); err != nil {
		t.Fatal(err)
	}
	r, err := f.Refresh(fd, i)
	if err != nil || r.Tag != Locked || r.PID() != 4711 || r.Delays != 3 || r.User != "bob@h700.example" {
		t.Errorf("Refresh returns %+v, %v", r, err)
	}
	if f.Recipients[i].Tag != Open {
		t.Error("Refresh changes the file that others use")
	}
	if _, err := unix.Pwrite(fd, []byte("eve"), offset+int64(len("r           smtp h700.example "))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Refresh(fd, i); !errors.Is(err, ErrReplaced) {
		t.Errorf("Refresh of another recipient returns %v", err)
	}
}

func TestAppendAtHostFindsTheSameWithAndWithoutAnIndex(t *testing.T) {
	text := "i 1\no 2\ns smtp a b 0\n" +
		"r           smtp A.example u1 0\n" +
		"r           smtp ((a.example)(b.example)) u2 0\n" +
		"r           smtp b.example u3 0\n" +
		"r           smtp - u4 0\n" +
		"r           smtp ( u5 0\n"
	f, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, indexed := range []bool{false, true} {
		if indexed {
			f.indexHosts()
		}
		for host, want := range map[string]string{
			"": "[0 1 2 3 4]", "a.EXAMPLE": "[0 1]", "B.example": "[2]", "c.example": "[]", "-": "[3]",
			"((A.example)(c.example))": "[0 1]", "(": "[4]",
		} {
			if got := fmt.Sprint(f.AppendAtHost(nil, host)); got != want {
				t.Errorf("index %v, host %q: %s, want %s", indexed, host, got, want)
			}
		}
	}
}
