package queue

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"

	"zsched/ctlfile"
)

func mustParse(t *testing.T, text string) *ctlfile.File {
	t.Helper()
	f, err := ctlfile.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

const message = "Subject: x\n\nhello\n"

func newPostoffice(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"transport", "queue", "router"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tree lists the files below a directory, those that start with a dot too.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(dir, path)
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(files, " ")
}

func stat(t *testing.T, path string) (mode fs.FileMode, inode uint64) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode(), info.Sys().(*syscall.Stat_t).Ino
}

func contentsFor(message string) *ctlfile.Contents {
	return &ctlfile.Contents{
		Body: int64(strings.Index(message, "\n\n") + 2), MessageID: "<m1@example.org>",
		Blocks: []ctlfile.HeaderBlock{{
			Envelopes: []ctlfile.Envelope{{
				Sender:     ctlfile.Address{Channel: "smtp", Host: "mx.example.org", User: "alice@example.org", Privilege: "0"},
				Recipients: []ctlfile.EnvelopeRecipient{{Address: ctlfile.Address{Channel: "smtp", Host: "example.net", User: "bob@example.net", Privilege: "0"}}},
			}},
			Header: "Subject: x\n",
		}},
	}
}

func TestSubmit(t *testing.T) {
	for levels := range 3 {
		dir := newPostoffice(t)
		path, err := Submit(dir, levels, contentsFor(message), strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		n, ok := ctlfile.Number(filepath.Base(path))
		equal(t, "named by a number", ok, true)
		equal(t, "path", path, ctlfile.HashDir(n, levels)+strconv.FormatUint(n, 10))
		equal(t, "files", tree(t, dir), "queue/"+path+" transport/"+path)

		mode, inode := stat(t, filepath.Join(dir, "queue", path))
		equal(t, "inode", inode, n)
		equal(t, "message mode", mode, 0o640)
		mode, _ = stat(t, filepath.Join(dir, "transport", path))
		equal(t, "control file mode", mode, fs.FileMode(0o660))

		text, err := os.ReadFile(filepath.Join(dir, "transport", path))
		if err != nil {
			t.Fatal(err)
		}
		f := mustParse(t, string(text))
		equal(t, "Name", f.Name, filepath.Base(path))
		equal(t, "Body", f.Body, 12)
		stored, err := os.ReadFile(filepath.Join(dir, "queue", path))
		equal(t, "message", string(stored), message)
		equal(t, "error", err, nil)
	}
}

func TestFailedSubmitLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		spoil   func(dir string, d *ctlfile.Contents) error
		message io.Reader
	}{
		{name: "message breaks off", message: io.MultiReader(strings.NewReader(message), iotest.ErrReader(broken))},
		{name: "body behind the end", spoil: func(_ string, d *ctlfile.Contents) error { d.Body = 19; return nil }},
		{name: "nobody to deliver to", spoil: func(_ string, d *ctlfile.Contents) error { d.Blocks = nil; return nil }},
		{name: "no transport", spoil: func(dir string, _ *ctlfile.Contents) error { return os.Remove(dir + "/transport") }},
		{name: "no queue", spoil: func(dir string, _ *ctlfile.Contents) error { return os.Remove(dir + "/queue") }},
		{name: "no room for hash directories", spoil: func(dir string, _ *ctlfile.Contents) error {
			for letter := 'A'; letter <= 'Z'; letter++ {
				if err := os.Symlink("nowhere", fmt.Sprintf("%s/transport/%c", dir, letter)); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		dir := newPostoffice(t)
		d := contentsFor(message)
		if c.spoil != nil {
			if err := c.spoil(dir, d); err != nil {
				t.Fatal(err)
			}
		}
		before := tree(t, dir)
		if c.message == nil {
			c.message = strings.NewReader(message)
		}
		if path, err := Submit(dir, 2, d, c.message); err == nil || path != "" {
			t.Errorf("%s: %q, %v", c.name, path, err)
		}
		equal(t, c.name, tree(t, dir), before)
	}
}

// inRouter puts a message where the router finds it.
func inRouter(t *testing.T, dir string) (file string, inode uint64) {
	t.Helper()
	file = filepath.Join(dir, "router", "7")
	if err := os.WriteFile(file, []byte(message), 0o600); err != nil {
		t.Fatal(err)
	}
	_, inode = stat(t, file)
	return file, inode
}

// enqueue commits one message as a copy.
func enqueue(dir string, levels int, file string) (path string, err error) {
	c, err := OpenCopies(dir, levels)
	if err != nil {
		return "", err
	}
	defer c.Close()
	i := Item{Contents: contentsFor(message), Message: file}
	c.Commit([]*Item{&i})
	return i.Path, i.Err
}

func TestEnqueueTakesTheMessageFileItself(t *testing.T) {
	dir := newPostoffice(t)
	file, inode := inRouter(t, dir)
	path, err := enqueue(dir, 1, file)
	equal(t, "error", err, nil)
	equal(t, "files", tree(t, dir), "queue/"+path+" transport/"+path)
	_, queued := stat(t, filepath.Join(dir, "queue", path))
	equal(t, "inode", queued, inode)
}

// When its last step failed, the old router deleted the message file, which it
// had already moved.
func TestEnqueueNeverLosesTheMessage(t *testing.T) {
	for _, taken := range []string{"transport", "queue"} {
		for levels := range 3 {
			dir := newPostoffice(t)
			file, inode := inRouter(t, dir)
			squatter := filepath.Join(dir, taken, ctlfile.HashDir(inode, levels), strconv.FormatUint(inode, 10))
			if err := os.MkdirAll(filepath.Dir(squatter), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(squatter, []byte("of another message"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			path, err := enqueue(dir, levels, file)
			if !errors.Is(err, fs.ErrExist) || path != "" {
				t.Errorf("name taken in %s: %q, %v", taken, path, err)
			}
			equal(t, "files", tree(t, dir), before)
			text, err := os.ReadFile(file)
			equal(t, "message", string(text), message)
			equal(t, "error", err, nil)
			mode, _ := stat(t, file)
			equal(t, "mode", mode, 0o600)
			other, err := os.ReadFile(squatter)
			equal(t, "the other", string(other), "of another message")
			equal(t, "error", err, nil)
		}
	}
}

func TestEnqueueReplacesWhatACrashLeft(t *testing.T) {
	dir := newPostoffice(t)
	file, inode := inRouter(t, dir)
	info, err := os.Lstat(file)
	equal(t, "error", err, nil)
	left := filepath.Join(dir, "transport/.scheduler", ctlfile.SpoolID(inode, info.ModTime()))
	equal(t, "error", os.Mkdir(filepath.Dir(left), 0o700), nil)
	if err := os.WriteFile(left, []byte("half of"), 0o400); err != nil {
		t.Fatal(err)
	}
	path, err := enqueue(dir, 0, file)
	equal(t, "error", err, nil)
	equal(t, "files", tree(t, dir), "queue/"+path+" transport/"+path)
}

func TestEnqueueWantsAFile(t *testing.T) {
	dir := newPostoffice(t)
	link := filepath.Join(dir, "router", "link")
	if err := os.Symlink("/etc/passwd", link); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{link, dir, filepath.Join(dir, "router", "none")} {
		if path, err := enqueue(dir, 0, file); err == nil {
			t.Errorf("%s became %s", file, path)
		}
	}
	equal(t, "files", tree(t, dir), "router/link")
}

// A user can replace his file in public/ or router/ between two steps. What he puts there must not
// stay in queue/ either, because the number would be taken.
func TestReplacedMessageFileIsLeftAlone(t *testing.T) {
	another := func(path, _ string) error { return os.WriteFile(path, []byte("another"), 0o600) }
	for what, replace := range map[string]func(path, target string) error{
		"link":             func(path, target string) error { return os.Symlink(target, path) },
		"file":             another,
		"file and a third": another,
	} {
		dir := newPostoffice(t)
		file, _ := inRouter(t, dir)
		target := filepath.Join(dir, "target")
		c, err := OpenRouter(dir, 0)
		equal(t, "error", err, nil)
		c.Step = func(step string) {
			if strings.HasPrefix(step, "move message") {
				for _, err := range []error{
					os.WriteFile(target, []byte("root:*:"), 0o600), os.Rename(file, file+".old"), replace(file, target),
				} {
					equal(t, "error", err, nil)
				}
			}
			if what == "file and a third" && strings.HasPrefix(step, "return") {
				equal(t, "error", another(file, ""), nil)
			}
		}
		i := Item{Contents: contentsFor(message), Message: file}
		if c.Commit([]*Item{&i}); i.Err == nil || i.Moved {
			t.Errorf("%s: no error", what)
		}
		c.Close()
		mode, _ := stat(t, target)
		equal(t, what+": mode of the target", mode, 0o600)
		if what == "file" {
			mode, _ = stat(t, file)
			equal(t, "mode", mode, 0o600)
		}
		equal(t, "queued", strings.Contains(tree(t, dir), "queue/"), false)
	}
}

// The file that a user has put in place of his submission does not stay in queue/ either if the router
// dies before it returns it.
func TestReplacedMessageFileIsPutAsideAfterACrash(t *testing.T) {
	dir := newPostoffice(t)
	file, number := inRouter(t, dir)
	c, err := OpenRouter(dir, 0)
	equal(t, "error", err, nil)
	c.Step = func(step string) {
		switch {
		case strings.HasPrefix(step, "move message"):
			equal(t, "rename", os.Rename(file, file+".old"), nil)
			equal(t, "mkfifo", syscall.Mkfifo(file, 0o600), nil)
		case strings.HasPrefix(step, "return"):
			panic(step)
		}
	}
	func() {
		defer func() { _ = recover() }()
		c.Commit([]*Item{{Contents: contentsFor(message), Message: file}})
	}()
	c.Close()
	c, err = OpenRouter(dir, 0)
	equal(t, "error", err, nil)
	defer c.Close()
	kept := ""
	_, err = c.Recover(func(path, name, _ string) error {
		kept = path
		return os.Remove(path)
	})
	equal(t, "error", err, nil)
	equal(t, "kept", kept, filepath.Join(dir, "queue", strconv.FormatUint(number, 10)))
	equal(t, "staged", strings.Contains(tree(t, dir), RouterStaging), false)
}

func TestControlFileStaysRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to submit another user's message")
	}
	dir := newPostoffice(t)
	file, _ := inRouter(t, dir)
	equal(t, "error", os.Chown(file, 65534, 65534), nil)
	path, err := enqueue(dir, 0, file)
	equal(t, "error", err, nil)
	for place, owner := range map[string]uint32{"transport": 0, "queue": 65534} {
		info, err := os.Lstat(filepath.Join(dir, place, path))
		equal(t, "error", err, nil)
		equal(t, "owner in "+place, info.Sys().(*syscall.Stat_t).Uid, owner)
	}
}

func TestAnnounce(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for _, name := range []string{socket, "UNIX:" + socket} {
		if err := Announce(name, "F/F/258367"); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := listener.Read(b)
		equal(t, "datagram", string(b[:n]), "NEW F/F/258367")
		equal(t, "error", err, nil)
	}
	if err := Announce(socket+".none", "7"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := Announce(socket+strings.Repeat("x", 200), "7"); err == nil {
		t.Error("no error for a name that is too long")
	}
}

func TestAnnounceDoesNotWait(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	for range 1 << 20 {
		if err := Announce(socket, "7"); err != nil {
			if !errors.Is(err, syscall.EAGAIN) {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("a socket that nobody reads took every datagram")
}
