package process

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestUIDsOfARangeBelongToItsUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subuid")
	var s subuids
	now := time.Now()
	expect := func(uid, want int) {
		t.Helper()
		if got := s.userOf(uid, file, now); got != want {
			t.Errorf("uid %d is of user %d, not %d", uid, got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	expect(100000, 100000) // no file
	write("1000:100000:65536\n\nroot:200000:65536\nno such user:300000:10\nx:400000\ny:400000:-1\n1001:4294967295:4294967295\n")
	expect(100000, 100000) // it is looked at once a second
	now = now.Add(lookInterval)
	for uid, want := range map[int]int{
		0: 0, 1000: 1000, 99999: 99999, 100000: 1000, 165535: 1000, 165536: 165536,
		200001: 200000, 300009: 300000, 300010: 300010, 400000: 400000, 4294967295: 1001, -1: -1,
	} {
		expect(uid, want)
	}
	write("1001:100000:65536\n")
	now = now.Add(lookInterval)
	expect(100000, 1001)
	expect(200001, 200001)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	now = now.Add(lookInterval)
	expect(100000, 100000)
}
