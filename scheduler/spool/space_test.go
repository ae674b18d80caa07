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
