package memdisk

import (
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file makes a file with a text and returns its descriptor.
func (d *Disk) file(t *testing.T, path, text string) int {
	t.Helper()
	fd, err := d.Openat(-1, "/disk/"+path, unix.O_RDWR|unix.O_CREAT, 0o600)
	check(t, err)
	_, err = d.Write(fd, []byte(text))
	check(t, err)
	return fd
}

func (d *Disk) dir(t *testing.T, path string) int {
	t.Helper()
	fd, err := d.Openat(-1, "/disk/"+path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(t, err)
	return fd
}

func TestAPowerCutLeavesWhatWasSynced(t *testing.T) {
	for _, c := range []struct {
		syncFile, syncDir bool
		files             []string
		content           string
	}{
		{false, false, nil, ""},
		{true, false, nil, ""},
		{false, true, []string{"a"}, ""},
		{true, true, []string{"a"}, "text"},
	} {
		d := New("/disk", 0, rand.New(rand.NewPCG(1, 1)))
		fd := d.file(t, "a", "text")
		if c.syncFile {
			check(t, d.Fsync(fd))
		}
		if c.syncDir {
			check(t, d.Fsync(d.dir(t, "")))
		}
		d.Cut()
		if _, err := d.Fstat(fd); err != unix.EIO {
			t.Errorf("without power: %v", err)
		}
		d.PowerOn(0)
		if got := d.Files(""); !slices.Equal(got, c.files) || d.Content("a") != c.content {
			t.Errorf("%+v: %q, %q", c, got, d.Content("a"))
		}
	}
}

func TestARenameIsOneChange(t *testing.T) {
	for seed := range uint64(50) {
		d := New("/disk", 0, rand.New(rand.NewPCG(seed, 1)))
		check(t, d.Mkdirat(-1, "/disk/x", 0o700))
		check(t, d.Mkdirat(-1, "/disk/y", 0o700))
		fd := d.file(t, "x/a", "text")
		check(t, d.Syncfs(fd))
		check(t, d.Renameat(-1, "/disk/x/a", -1, "/disk/y/b", true))
		if seed%2 == 0 {
			check(t, d.Fsync(d.dir(t, "y")))
		}
		d.Cut()
		d.PowerOn(0.5)
		got := d.Files("")
		if len(got) != 1 || seed%2 == 0 && got[0] != "y/b" {
			t.Errorf("%q", got)
		}
	}
}

func TestAWriteThatNeedsNoSpaceSucceedsOnAFullDisk(t *testing.T) {
	d := New("/disk", 0, rand.New(rand.NewPCG(1, 1)))
	fd := d.file(t, "a", "text of a file")
	d.SetFaults(Faults{Space: 6})
	if n, err := d.Pwrite(fd, []byte("TEXT"), 0); n != 4 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n, err := d.Pwrite(fd, []byte("more"), 14); n != -1 || err != unix.ENOSPC {
		t.Errorf("beyond the end: %d bytes, %v", n, err)
	}
}

func TestAFullDiskTakesPartOfAWrite(t *testing.T) {
	d := New("/disk", 0, rand.New(rand.NewPCG(1, 1)))
	fd := d.file(t, "a", "1234")
	d.SetFaults(Faults{Space: 6})
	if n, err := d.Write(fd, []byte("5678")); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := d.Write(fd, []byte("9")); err != unix.ENOSPC {
		t.Error(err)
	}
}

// What an fsync that failed has abandoned may survive a power cut, but not where it was
// overwritten or cut off since and an fsync has succeeded.
func TestAbandonedWritesDoNotComeBackOverDurableOnes(t *testing.T) {
	for seed := range uint64(50) {
		d := New("/disk", 0, rand.New(rand.NewPCG(seed, 1)))
		fd := d.file(t, "a", "begin ")
		check(t, d.Syncfs(fd))
		_, err := d.Pwrite(fd, []byte("first line"), 6)
		check(t, err)
		d.SetFaults(Faults{Probability: 1, Error: unix.EDQUOT, At: "sync a"})
		if err := d.Fsync(fd); err != unix.EDQUOT {
			t.Fatal(err)
		}
		d.SetFaults(Faults{})
		want := "begin FIRST line"
		if seed%2 == 0 {
			check(t, d.Ftruncate(fd, 6))
			want = "begin FIRST"
		}
		_, err = d.Pwrite(fd, []byte("FIRST"), 6)
		check(t, err)
		check(t, d.Fsync(fd))
		d.Cut()
		d.PowerOn(1)
		if got := d.Content("a"); got != want {
			t.Errorf("%q", got)
		}
	}
}
