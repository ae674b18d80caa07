package postoffice

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A log is opened neither through a link of another user, which may lead to any file of
// root's, nor if opening it would wait for the reader of a FIFO.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.Symlink("file", path("link")), os.Symlink("link", path("second")), os.Symlink("loop", path("loop")),
		syscall.Mkfifo(path("fifo"), 0o600), syscall.Mkfifo(path("read"), 0o600), os.Symlink("fifo", path("to-fifo")),
	)
	reader, e := os.OpenFile(path("read"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err = errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cases := map[string]string{
		"file": "", "link": "", "second": "", "read": "", "/dev/null": "", "missing/file": "no such file",
		"loop": "too many levels", "fifo": "a FIFO that no program reads", "to-fifo": "a FIFO that no program reads",
	}
	if os.Geteuid() == 0 {
		err := errors.Join(
			os.Symlink("file", path("foreign")), os.Symlink("foreign", path("to-foreign")), os.Lchown(path("foreign"), 1000, 1000),
			syscall.Mkfifo(path("foreign-fifo"), 0o600), os.Chown(path("foreign-fifo"), 1000, 1000),
		)
		other, e := os.OpenFile(path("foreign-fifo"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err = errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		cases["foreign"], cases["to-foreign"] = "a symbolic link of another user", "a symbolic link of another user"
		cases["foreign-fifo"] = "a FIFO of another user"
	}
	for name, want := range cases {
		if !filepath.IsAbs(name) {
			name = path(name)
		}
		f, err := OpenLog(name, 0o640)
		if err == nil {
			f.Close()
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
