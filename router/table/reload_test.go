package table

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tables that are read again.

func TestBrokenTableLeavesTheOldInForce(t *testing.T) {
	dir := t.TempDir()
	l := NewLoader(dir, "mx.example", "mx.example")
	if err := l.Load(); err != nil {
		t.Fatal(err) // neither file is needed
	}
	if got := show(route(l.Table(), "x@a.b", "")[0]); got != "smtp a.b x@a.b" {
		t.Error(got)
	}
	list := write(t, filepath.Join(dir, "list"), "a@b\n", 0o644)
	write(t, l.AliasesFile, "x: :include:"+list+"\n", 0o644)
	now := time.Now()
	if l.changed(now) || !l.changed(now.Add(time.Minute)) {
		t.Error("a change is to be seen when it has settled")
	}
	if err := l.Load(); err != nil || len(route(l.Table(), "x", "")) != 1 {
		t.Fatal(err)
	}
	write(t, list, "a@b\nc@d\n", 0o644)
	if !l.changed(now.Add(time.Minute)) {
		t.Error("a change of an included file is not seen")
	}
	write(t, l.AliasesFile, "x: a@b\nx: c d\n", 0o644)
	if err := l.Load(); err == nil || !strings.Contains(err.Error(), "aliases:2: ") {
		t.Errorf("%v", err)
	}
	if l.changed(now.Add(time.Minute)) || len(route(l.Table(), "x", "")) != 1 {
		t.Error("the broken table is read again, or in force")
	}
}

// An error that no change of a file ends is tried again, and returned once.
func TestTablesAreReadAgainAfterAnError(t *testing.T) {
	dir := t.TempDir()
	l := NewLoader(dir, "mx.example", "mx.example")
	long := time.Now().Add(-time.Hour)
	write(t, l.AliasesFile, "x: a@b\n", 0o644)
	if err := errors.Join(os.Chtimes(l.AliasesFile, long, long), l.Load(), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(time.Hour)
	if loaded, err := l.Refresh(now, true); loaded || err == nil || !strings.Contains(err.Error(), "can write or replace "+dir) {
		t.Fatalf("loaded %v, %v", loaded, err)
	}
	if loaded, err := l.Refresh(now.Add(retryTime), false); loaded || err != nil {
		t.Errorf("the same again: loaded %v, %v", loaded, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if loaded, err := l.Refresh(now.Add(retryTime+time.Second), false); loaded || err != nil {
		t.Errorf("too early: loaded %v, %v", loaded, err)
	}
	if loaded, err := l.Refresh(now.Add(2*retryTime), false); !loaded || err != nil {
		t.Errorf("loaded %v, %v", loaded, err)
	}
}

// A file that vanishes is a mistake: with an empty table all mail to aliases would
// fail. At the start, a missing file is an empty table.
func TestTablesThatVanishStayInForce(t *testing.T) {
	dir := t.TempDir()
	l := NewLoader(dir, "mx.example", "mx.example")
	if err := l.Load(); err != nil {
		t.Fatalf("without files: %v", err)
	}
	text := map[string]string{l.AliasesFile: "x: a@a, b@b\n", l.RoutesFile: "mx.example local\n* smtp\n"}
	long := time.Now().Add(-time.Hour)
	for file, content := range text {
		if err := errors.Join(os.WriteFile(file, []byte(content), 0o644), os.Chtimes(file, long, long)); err != nil {
			t.Fatal(err)
		}
	}
	if loaded, err := l.Refresh(time.Now(), true); !loaded || err != nil {
		t.Fatal(loaded, err)
	}
	for file, content := range text {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		for range 2 { // by itself, and because somebody asks for it
			loaded, err := l.Refresh(time.Now().Add(time.Hour), true)
			if loaded || err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "old tables stay in force") {
				t.Errorf("%s: %v, %v", file, loaded, err)
			}
			if n := len(route(l.Table(), "x", "")); n != 2 {
				t.Errorf("%s: %d targets", file, n)
			}
		}
		if err := errors.Join(os.WriteFile(file, []byte(content), 0o644), os.Chtimes(file, long, long)); err != nil {
			t.Fatal(err)
		}
		if loaded, err := l.Refresh(time.Now().Add(2*time.Hour), false); !loaded || err != nil {
			t.Errorf("%s is back: %v, %v", file, loaded, err)
		}
	}
}
