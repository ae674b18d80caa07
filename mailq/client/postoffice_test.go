package client

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// manyHosts is a postoffice with one message to n hosts, and the size of its control
// file.
func manyHosts(t testing.TB, n int) (*Postoffice, int) {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("@ 0x00000007\ni 15582\no 0\ns smtp mx.example alice@mx.example 0\n")
	for i := range n {
		fmt.Fprintf(&b, "r           smtp h%d.example bob@h%d.example 0\n", i, i)
	}
	b.WriteString("m\nSubject: x\n\n")
	for name, text := range map[string]string{"transport": b.String(), "queue": "body\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "15582"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Postoffice{Dir: dir}, b.Len()
}

// TestMessageToManyHostsIsReadOnce counts allocated bytes: -v read the whole control file
// for each thread of the message.
func TestMessageToManyHostsIsReadOnce(t *testing.T) {
	const hosts, reads = 4000, 500
	spool, size := manyHosts(t, hosts)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range reads {
		f, err := spool.Read("15582", fmt.Sprintf("h%d.example", i))
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("bob@h%d.example", i); f.Recipients[0].User != want {
			t.Fatalf("recipient %d is %q, want %q", i, f.Recipients[0].User, want)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(20*size+reads*8<<10) {
		t.Errorf("%d readings of a control file of %d bytes allocate %d bytes", reads, size, got)
	}
}
