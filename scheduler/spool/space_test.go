package spool

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

func TestReadSpace(t *testing.T) {
	o := newTestSpool(t)
	s, err := ReadSpace(o.dir)
	check(t, err)
	if s.FreeKB == 0 || s.UsedKB == 0 && s.UsedFiles == 0 {
		t.Errorf("%+v", s)
	}
	if _, err := ReadSpace(filepath.Join(o.dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestKilobytes(t *testing.T) {
	for _, c := range [][3]uint64{{10, 4096, 40}, {3, 512, 1}, {2048, 512, 1024}, {2048, 1, 2}, {1 << 60, 1024, 1 << 60}} {
		if got := kilobytes(c[0], c[1]); got != c[2] {
			t.Errorf("%d blocks of %d bytes are %d kB, want %d", c[0], c[1], got, c[2])
		}
	}
}
