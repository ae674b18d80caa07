package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tables that are read again.

func TestBrokenTableLeavesTheOldInForce(t *testing.T) {
	dir := t.TempDir()
	l := &Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
	if err := l.Load(); err != nil {
		t.Fatal(err) // neither file is needed
	}
	if got := show(route(l.Table(), "x@a.b", "")[0]); got != "smtp a.b x@a.b" {
		t.Error(got)
	}
	list := write(t, filepath.Join(dir, "list"), "a@b\n", 0o644)
	write(t, l.AliasesFile, "x: :include:"+list+"\n", 0o644)
	now := time.Now()
	if l.Changed(now) || !l.Changed(now.Add(time.Minute)) {
		t.Error("a change is to be seen when it has settled")
	}
	if err := l.Load(); err != nil || len(route(l.Table(), "x", "")) != 1 {
		t.Fatal(err)
	}
	write(t, list, "a@b\nc@d\n", 0o644)
	if !l.Changed(now.Add(time.Minute)) {
		t.Error("a change of an included file is not seen")
	}
	write(t, l.AliasesFile, "x: a@b\nx: c d\n", 0o644)
	if err := l.Load(); err == nil || !strings.Contains(err.Error(), "aliases:2:1: ") {
		t.Errorf("%v", err)
	}
	if l.Changed(now.Add(time.Minute)) || len(route(l.Table(), "x", "")) != 1 {
		t.Error("the broken table is read again, or in force")
	}
}

// The caller goes on with the old table while a large one is read.
func TestTablesAreReadBesideTheCaller(t *testing.T) {
	dir := t.TempDir()
	l := &Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
	if err := l.Load(); err != nil {
		t.Fatal(err)
	}
	write(t, l.AliasesFile, "x: a@b, c@d\n", 0o644)
	l.pending = make(chan *reading, 1)
	if loaded, err := l.Refresh(time.Now(), false); loaded || err != nil || len(route(l.Table(), "x", "")) != 1 {
		t.Errorf("loaded %v, %v", loaded, err)
	}
	l.pending <- l.read()
	if loaded, err := l.Refresh(time.Now(), false); !loaded || err != nil || len(route(l.Table(), "x", "")) != 2 {
		t.Errorf("loaded %v, %v", loaded, err)
	}
	if loaded, err := l.Refresh(time.Now(), true); !loaded || err != nil {
		t.Errorf("forced: loaded %v, %v", loaded, err)
	}
}

// A user who changes a list all the time does not keep other changes from being seen.
func TestYoungChangeOfAUsersListDelaysOnlyItself(t *testing.T) {
	dir := t.TempDir()
	l := &Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
	list := write(t, filepath.Join(dir, "list"), "a@b\n", 0o644)
	write(t, l.AliasesFile, "x: :include:"+list+"\n", 0o644)
	now := time.Now()
	long := now.Add(-time.Hour)
	if err := errors.Join(os.Chtimes(l.AliasesFile, long, long), l.Load()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(list, now, now); err != nil {
		t.Fatal(err)
	}
	if l.Changed(now) {
		t.Error("the list is read while it changes")
	}
	write(t, l.AliasesFile, "x: :include:"+list+"\ny: c@d\n", 0o644)
	if err := os.Chtimes(l.AliasesFile, long, long); err != nil {
		t.Fatal(err)
	}
	if !l.Changed(now) {
		t.Error("a change of the table is not seen")
	}
}

// A list that could not be read for a moment, because its owner had a lease on it, is
// read again although nobody changes it.
func TestListIsReadAgainAfterAnErrorThatPasses(t *testing.T) {
	dir, users := rootDir(t)
	list := write(t, filepath.Join(users, "list"), "a@b\n", 0o644)
	loader := func() *Loader {
		return &Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
	}
	write(t, filepath.Join(dir, "aliases"), "x: :include:"+list+"\n", 0o644)
	good, l := loader(), loader()
	if err := good.Load(); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(route(good.Table(), "x", ""))
	f, err := os.Open(list)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lease := func(kind int) error {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, kind)
		return err
	}
	if err := lease(unix.F_WRLCK); err != nil {
		t.Skipf("no lease: %v", err)
	}
	err = l.Load()
	for tries := 1; tries <= 2; tries++ { // the kernel breaks the lease after 45 seconds
		if err == nil && fmt.Sprint(route(l.Table(), "x", "")) == want {
			t.Fatal("the lease kept nobody out")
		}
		at := time.Now()
		if loaded, _ := l.Refresh(at, false); loaded {
			t.Error("the tables were read again at once")
		}
		if delay := l.retryAt.Sub(at); delay <= 0 || delay > time.Duration(2*tries-1)*firstRetry {
			t.Fatalf("they are read again after %v", delay)
		}
		if tries == 1 {
			_, err = l.Refresh(l.retryAt, false)
		}
	}
	if err := lease(unix.F_UNLCK); err != nil {
		t.Fatal(err)
	}
	if loaded, err := l.Refresh(l.retryAt.Add(time.Hour), false); !loaded || err != nil || fmt.Sprint(route(l.Table(), "x", "")) != want {
		t.Errorf("loaded %v, %v", loaded, err)
	}
	if !l.retryAt.IsZero() {
		t.Errorf("they are read again at %v", l.retryAt)
	}
}

// A file that vanishes is a mistake: with an empty table all mail to aliases would
// fail. At the start, a missing file is an empty table.
func TestTablesThatVanishStayInForce(t *testing.T) {
	dir := t.TempDir()
	l := &Loader{RoutesFile: filepath.Join(dir, "routes"), AliasesFile: filepath.Join(dir, "aliases"), Domains: []string{"mx.example"}}
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
