package ctlfile

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

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

func read(t *testing.T, c *Recent, fd int, host string) (*File, error) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return c.Read(fd, st.Size, host)
}

func TestRecentKeepsAnIndexOfALargeFile(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		name, text string
		recipients int // that Read returns for one host
	}{
		{"large", manyHosts(1000, ""), 1},
		{"one recipient", strings.Replace(manyHosts(1, ""), "x\n", strings.Repeat("x", minRecent)+"\n", 1), 1},
		{"small", manyHosts(10, ""), 10},
		{"most at one host", manyHosts(1000, strings.Repeat("r           smtp h0.example bob 0\n", 1000)), 2000},
		{"alternatives", manyHosts(1000, "X           1 smtp a.example bob 0\nX           1 smtp b.example bob 0\n"), 1002},
	} {
		var c Recent
		path := filepath.Join(dir, test.name)
		for _, text := range []string{test.text, strings.ReplaceAll(test.text, "bob", "eve")} {
			// The second is another file of that name.
			writeControl(t, path+".new", text)
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				whole, err := Parse([]byte(text))
				if err != nil {
					t.Fatal(err)
				}
				f, err := read(t, &c, openControl(t, path), "H0.example")
				if err != nil || len(f.Recipients) != test.recipients {
					t.Fatalf("%s: Read returns %d recipients, %v", test.name, len(f.Recipients), err)
				}
				got, want := *f, *whole
				for i := range f.Recipients {
					if got, want := f.Headers(i), want.Headers(i); got != want {
						t.Errorf("%s: header %q, want %q", test.name, got, want)
					}
				}
				got.text, got.blocks, got.Recipients = "", nil, got.Recipients[:1]
				want.text, want.blocks, want.Recipients = "", nil, want.Recipients[:1]
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%s: Read returns\n%+v, want\n%+v", test.name, got, want)
				}
			}
		}
	}
}

// TestRecentFindsWhatParsingFinds has recipients of several senders and header blocks, with all
// lines that may belong to a recipient.
func TestRecentFindsWhatParsingFinds(t *testing.T) {
	var b strings.Builder
	b.WriteString("@ 0x00000007\ni 15582\no 24\nl <1@a>\nS UID=7\nx <2@b>\ne alice@mx.example\n")
	for i := range 5000 {
		if i%1000 == 0 {
			fmt.Fprintf(&b, "e owner%d\ns smtp mx.example a%d@mx.example 0\n", i, i)
		}
		fmt.Fprintf(&b, "r           smtp h%d.example bob%d 0\n", i%50, i)
		if i%3 == 0 {
			fmt.Fprintf(&b, "N NOTIFY=SUCCESS ORCPT=rfc822;x%d@example\nR HDRS\nn env%d\n", i, i)
		}
		if i%700 == 699 {
			fmt.Fprintf(&b, "m\nSubject: %d\n\n", i)
		}
	}
	b.WriteString("m\nSubject: last\n\nd 1:2:-1::17\tx\ty\n")
	path := filepath.Join(t.TempDir(), "15582")
	writeControl(t, path, b.String())
	whole, err := Parse([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	var c Recent
	fd := openControl(t, path)
	for h := range 51 {
		host := fmt.Sprintf("h%d.example", h)
		f, err := read(t, &c, fd, host)
		if err != nil {
			t.Fatal(err)
		}
		var want []Recipient
		for _, i := range whole.AppendAtHost(nil, host) {
			want = append(want, whole.Recipients[i])
			if k := len(want) - 1; k < len(f.Recipients) && f.Headers(k) != whole.Headers(i) {
				t.Errorf("%s: header %q, want %q", host, f.Headers(k), whole.Headers(i))
			}
		}
		if !slices.Equal(f.Recipients, want) {
			t.Errorf("%s: Read returns\n%+v, want\n%+v", host, f.Recipients, want)
		}
		if !slices.Equal(f.Senders, whole.Senders) {
			t.Errorf("%s: other senders", host)
		}
	}
}

func TestRecentHasAnUpperBound(t *testing.T) {
	var c Recent
	for range 10 {
		c.keep(&index{cost: maxRecent / 4})
	}
	if len(c.files) != 4 {
		t.Errorf("%d indices are kept", len(c.files))
	}
	c.keep(&index{cost: 2 * maxRecent})
	if len(c.files) != 1 {
		t.Errorf("%d indices are kept beside one that is too large", len(c.files)-1)
	}
}

// TestIndexIsSmall has the bound of recipients in mind: eight messages to 250 000 recipients each fit
// into maxRecent.
func TestIndexIsSmall(t *testing.T) {
	const n = 20_000
	path := filepath.Join(t.TempDir(), "15582")
	text := manyHosts(n, "")
	writeControl(t, path, text)
	if x := newIndex(openControl(t, path), int64(len(text))); x.cost < n*int64(unsafe.Sizeof(place{})) || x.cost > n*maxRecent/8/250_000 {
		t.Errorf("an index of %d recipients has %d bytes", n, x.cost)
	}
}

func TestRecentReadsTheStateEachTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "15582")
	writeControl(t, path, manyHosts(1000, ""))
	var c Recent
	fd := openControl(t, path)
	one := func() (*File, *Recipient) {
		f, err := read(t, &c, fd, "h700.example")
		if err != nil || len(f.Recipients) != 1 {
			t.Fatalf("Read returns %+v, %v", f, err)
		}
		return f, &f.Recipients[0]
	}
	_, r := one()
	offset := r.Offset
	if err := SetDelays(fd, offset, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := Swap(fd, offset, Open, Locked, 4711); err != nil {
		t.Fatal(err)
	}
	if _, r = one(); r.Tag != Locked || r.PID() != 4711 || r.Delays != 3 || r.User != "bob@h700.example" {
		t.Errorf("Read returns %+v", r)
	}
	// Somebody edits the file in place.
	if _, err := unix.Pwrite(fd, []byte("eve"), offset+int64(len("r           smtp h700.example "))); err != nil {
		t.Fatal(err)
	}
	if _, r = one(); r.User != "eve@h700.example" {
		t.Errorf("after an edit: %+v", r)
	}
	text := "i 15582\no 24\ns smtp mx.example alice 0\nr           smtp h700.example carol 0\n" +
		strings.Repeat("r           smtp other.example bob 0\n", 2000) + "m\nSubject: x\n\n"
	if _, err := unix.Pwrite(fd, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
	if f, err := read(t, &c, fd, "h700.example"); err != nil || f.Recipients[0].User != "carol" {
		t.Errorf("after a larger edit: %v", err)
	}
}

func TestAppendAtHostComparesAsTheSchedulerDoes(t *testing.T) {
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
	for host, want := range map[string]string{
		"": "[0 1 2 3 4]", "a.EXAMPLE": "[0 1]", "B.example": "[2]", "c.example": "[]", "-": "[3]",
		"((A.example)(c.example))": "[0 1]", "(": "[4]",
	} {
		if got := fmt.Sprint(f.AppendAtHost(nil, host)); got != want {
			t.Errorf("host %q: %s, want %s", host, got, want)
		}
	}
}
