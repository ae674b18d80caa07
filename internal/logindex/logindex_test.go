package logindex

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func messageID(i int) string { return fmt.Sprintf("%x@a.example", uint64(i)*0x9e3779b97f4a7c15) }

// lines are those of some messages, about 1.2 blocks for every 1000.
func lines(from, to int) []byte {
	var b bytes.Buffer
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, `{"time":"2026-11-20T23:59:59.500Z","event":"arrival","spoolid":"S%dAbmAA","message_id":"<%s>","sender":"<Ann%d@a.example>","recipient":"user@b.example","file":"A/%d","size":812,"text":"%s"}`+"\n",
			i, messageID(i), i, i, strings.Repeat("no answer ", 40))
	}
	return b.Bytes()
}

func openLog(tb testing.TB, name string) *os.File {
	tb.Helper()
	log, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		tb.Fatal(err)
	}
	return log
}

// writeLog appends to a log in a writer that is opened and closed.
func writeLog(tb testing.TB, name string, text []byte) {
	tb.Helper()
	w := Open(openLog(tb, name))
	if n, err := w.Write(text); n != len(text) || err != nil {
		tb.Fatal(n, err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
}

// parts returns those that may have one of the texts.
func parts(tb testing.TB, name string, texts ...string) []Part {
	tb.Helper()
	log, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	keys := []Key{}
	for _, text := range texts {
		keys = append(keys, KeyOf(text))
	}
	return Parts(log, 0, keys)
}

// indexOf returns the name of the index of a log.
func indexOf(tb testing.TB, name string) string {
	tb.Helper()
	info, err := os.Stat(name)
	if err != nil {
		tb.Fatal(err)
	}
	return nameOf(name, info)
}

func size(tb testing.TB, name string) int64 {
	tb.Helper()
	info, err := os.Stat(name)
	if err != nil {
		tb.Fatal(err)
	}
	return info.Size()
}

func TestOnlyBlocksThatMayHaveATextAreRead(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events")
	text := lines(0, 3000)
	writeLog(t, log, text)
	for _, what := range []string{"S1500AbmAA", "s1500abmaa", "ann1500@A.EXAMPLE", "1500", messageID(1500)} {
		got := parts(t, log, what)
		at := int64(bytes.Index(text, []byte("S1500A")))
		if len(got) != 2 || got[0].Begin > at || got[0].End <= at || got[0].End-got[0].Begin > maxBlock+1000 {
			t.Errorf("%s: %v", what, got)
		}
	}
	if got := parts(t, log, "user@b.example"); !slices.Equal(got, []Part{{0, math.MaxInt64}}) {
		t.Errorf("a text of each block: %v", got)
	}
	found := 0
	for i := range 2000 {
		found += len(parts(t, log, fmt.Sprint("nobody", i))) - 1
	}
	if blocks := int(size(t, indexOf(t, log)) / recordSize); found > 2000*blocks/200 {
		t.Errorf("%d times in %d blocks, one of 2000 texts seems to be there", found, blocks)
	}
}

// TestDamagedIndexIsUsedUpToTheDamage changes or cuts an index at each of its bytes.
func TestDamagedIndexIsUsedUpToTheDamage(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events")
	writeLog(t, log, lines(0, 3)) // each with a record of its own
	writeLog(t, log, lines(3, 6))
	writeLog(t, log, lines(6, 9))
	good, err := os.ReadFile(indexOf(t, log))
	if err != nil || len(good) != 3*recordSize {
		t.Fatal(len(good), err)
	}
	in, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1
		for _, index := range [][]byte{good[:at], bad} {
			visited := 0
			size := scan(bytes.NewReader(index), in, func(*block) { visited++ })
			if want := at / recordSize; visited != want || size != int64(want*recordSize) {
				t.Fatalf("damaged at %d of %d: %d blocks, %d bytes", at, len(index), visited, size)
			}
		}
	}
	// The writer goes on after the last good record.
	begin := parts(t, log)
	if err := os.WriteFile(indexOf(t, log), good[:2*recordSize+7], 0o640); err != nil {
		t.Fatal(err)
	}
	end := size(t, log)
	writeLog(t, log, lines(9, 20))
	if got := parts(t, log); got[0] != begin[0] || got[len(got)-1].Begin <= end {
		t.Errorf("after a damaged record: %v", got)
	}
}

// TestIndexOfAnotherLogIsNotUsed: an inode may be used again, and a log be replaced in its place.
func TestIndexOfAnotherLogIsNotUsed(t *testing.T) {
	dir := t.TempDir()
	log, other := filepath.Join(dir, "events"), filepath.Join(dir, "other")
	writeLog(t, log, lines(0, 10))
	writeLog(t, other, lines(10, 30))
	if err := os.Rename(indexOf(t, log), indexOf(t, other)); err != nil {
		t.Fatal(err)
	}
	if got := parts(t, other); got[0].Begin != 0 || len(got) != 1 {
		t.Errorf("%v", got)
	}
	begin := size(t, other)
	writeLog(t, other, lines(30, 40))
	if got := parts(t, other); got[0].Begin != 0 || got[0].End < begin {
		t.Errorf("%v", got)
	}
}

// TestIndexThatCannotBeWritten: the log is written, and read where the index has no record.
func TestIndexThatCannotBeWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	w := Open(openLog(t, name)).(*writer)
	text := lines(0, 3000)
	index := w.index
	for i, part := range [][]byte{text[:len(text)/3], text[len(text)/3 : len(text)*2/3], text[len(text)*2/3:]} {
		if w.index = index; i == 1 {
			w.index, _ = os.Open(index.Name())
		}
		if n, err := w.Write(part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if written, err := os.ReadFile(name); err != nil || !bytes.Equal(written, text) {
		t.Errorf("the log differs, %v", err)
	}
	got := parts(t, name)
	if len(got) != 2 || got[0].Begin == 0 || got[0].End > int64(len(text)) {
		t.Errorf("%v", got)
	}
}

func TestIndexesOfLogsThatAreGoneAreRemoved(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "events")
	for _, name := range []string{"events.2", "events.1", "events"} {
		writeLog(t, filepath.Join(dir, name), lines(0, 3))
	}
	gone, kept, own := indexOf(t, log+".2"), indexOf(t, log+".1"), indexOf(t, log)
	if err := os.Remove(log + ".2"); err != nil {
		t.Fatal(err)
	}
	writeLog(t, log, lines(3, 6))
	for name, want := range map[string]bool{gone: false, kept: true, own: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIndexOfALogBehindALink: the log may be a symbolic link.
func TestIndexOfALogBehindALink(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "events")
	if err := os.Symlink(filepath.Join(t.TempDir(), "file"), log); err != nil {
		t.Fatal(err)
	}
	writeLog(t, log, lines(0, 3))
	writeLog(t, filepath.Join(dir, "other"), lines(0, 3))
	if got := parts(t, log); got[0].Begin == 0 {
		t.Errorf("%v", got)
	}
}

// TestTruncatedLogIsIndexedAnew: also one that is truncated before any line is written.
func TestTruncatedLogIsIndexedAnew(t *testing.T) {
	log := filepath.Join(t.TempDir(), "events")
	writeLog(t, log, lines(0, 3))
	w := Open(openLog(t, log))
	for _, text := range [][]byte{lines(3, 2000), lines(2000, 2003)} {
		if err := os.Truncate(log, 0); err != nil {
			t.Fatal(err)
		}
		if got := parts(t, log); got[0].Begin != 0 {
			t.Errorf("truncated: %v", got)
		}
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := parts(t, log); got[0].Begin != size(t, log) {
		t.Errorf("%v of %d bytes", got, size(t, log))
	}
}

// TestForeignIndexIsLeftAlone: a name that others may have made is neither read nor changed.
func TestForeignIndexIsLeftAlone(t *testing.T) {
	for kind, make := range map[string]func(file, index string) error{
		"symlink": os.Symlink,
		"link":    os.Link,
		"FIFO":    func(_, index string) error { return unix.Mkfifo(index, 0o600) },
		"folder":  func(_, index string) error { return os.Mkdir(index, 0o700) },
		"owner": func(file, index string) error {
			if os.Getuid() != 0 {
				return os.Symlink(file, index)
			}
			if err := os.WriteFile(index, []byte("x"), 0o600); err != nil {
				return err
			}
			return os.Chown(index, 1, 1)
		},
	} {
		dir := t.TempDir()
		log, file := filepath.Join(dir, "events"), filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		openLog(t, log).Close()
		if err := make(file, indexOf(t, log)); err != nil {
			t.Fatal(err)
		}
		writeLog(t, log, lines(0, 10))
		if text, err := os.ReadFile(file); string(text) != "precious" || err != nil {
			t.Errorf("%s: the file has %.40q, %v", kind, text, err)
		}
		if got := parts(t, log); !slices.Equal(got, []Part{{0, math.MaxInt64}}) {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

func TestIndexHasTheRightsOfItsLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "events")
	log := openLog(t, name)
	if err := log.Chmod(0o604); err != nil {
		t.Fatal(err)
	}
	Open(log).Close()
	info, err := os.Stat(indexOf(t, name))
	if err != nil || info.Mode() != 0o604 {
		t.Error(info, err)
	}
}

func TestDeviceHasNoIndex(t *testing.T) {
	null := openLog(t, os.DevNull)
	if w := Open(null); w != io.WriteCloser(null) {
		t.Errorf("%T", w)
	}
	null.Close()
}

// BenchmarkWrite gives the time to write a line with an index, and its ratio to that without.
func BenchmarkWrite(b *testing.B) {
	const messages = 100
	plain := openLog(b, filepath.Join(b.TempDir(), "events"))
	defer plain.Close()
	indexed := Open(openLog(b, filepath.Join(b.TempDir(), "events")))
	defer indexed.Close()
	text := lines(0, messages)
	b.SetBytes(int64(len(text)))
	var without time.Duration
	for b.Loop() {
		b.StopTimer()
		began := time.Now()
		if _, err := plain.Write(text); err != nil {
			b.Fatal(err)
		}
		without += time.Since(began)
		b.StartTimer()
		if _, err := indexed.Write(text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/messages, "ns/line")
	b.ReportMetric(b.Elapsed().Seconds()/without.Seconds(), "of-plain")
}
