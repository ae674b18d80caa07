package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sendmail": main})
}

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

func TestInputOfPrograms(t *testing.T) {
	for text, want := range map[string]string{
		"a\n.\nb\n":                            "a\n",
		"a\r\n.\r\nb\r\n":                      "a\n",
		"a\n.":                                 "a\n",
		"a\n..\n.x\n":                          "a\n..\n.x\n",
		"From ann Mon\nTo: x\n\nb":             "To: x\n\nb",
		"To: x\n\nFrom here\n":                 "To: x\n\nFrom here\n",
		"a\rb\n":                               "a\rb\n",
		"":                                     "",
		strings.Repeat("x", 200) + "\r\n.\r\n": strings.Repeat("x", 200) + "\n",
	} {
		// The smallest buffer divides lines, so that a line end comes in two pieces.
		for _, size := range []int{16, 4096} {
			got, err := io.ReadAll(&input{in: bufio.NewReaderSize(strings.NewReader(text), size)})
			if err != nil || string(got) != want {
				t.Errorf("%.30q, buffer %d: %q, %v", text, size, got, err)
			}
		}
	}
	got, _ := io.ReadAll(&input{in: bufio.NewReader(strings.NewReader("a\n.\nb\n")), dots: true})
	if string(got) != "a\n.\nb\n" {
		t.Errorf("with -i: %q", got)
	}
}

func FuzzInput(f *testing.F) {
	f.Add("From x\r\na\r\n.\r\nb", false)
	f.Fuzz(func(t *testing.T, text string, dots bool) {
		small, err := io.ReadAll(&input{in: bufio.NewReaderSize(strings.NewReader(text), 16), dots: dots})
		large, err2 := io.ReadAll(&input{in: bufio.NewReaderSize(strings.NewReader(text), 1<<16), dots: dots})
		if err != nil || err2 != nil || len(large) > len(text) || !strings.HasPrefix(text, "From ") && string(small) != string(large) {
			t.Errorf("%q and %q, %v, %v", small, large, err, err2)
		}
	})
}

// TestOrdinaryUserSubmits: nobody needs no privilege where public/ and router/
// are open, and is told where they are not.
func TestOrdinaryUserSubmits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user; the scripts run as this one")
	}
	dir := t.TempDir()
	for up := dir; up != os.TempDir() && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, err := exec.LookPath("sendmail")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(found)
	if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "bin"), 0o755),
		os.WriteFile(filepath.Join(dir, "bin/sendmail"), program, 0o755),
		os.WriteFile(filepath.Join(dir, "zmailer.conf"), []byte("POSTOFFICE="+dir+"\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"public": 0o777 | os.ModeSticky, "router": 0o777 | os.ModeSticky, "queue": 0o750, "transport": 0o750} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o700), os.Chmod(filepath.Join(dir, name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	send := func() (int, string) {
		cmd := exec.Command(filepath.Join(dir, "bin/sendmail"), "-Z", filepath.Join(dir, "zmailer.conf"), "-f", "<>", "x@y.example")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Stdin = strings.NewReader("Subject: x\n\nbody\n")
		out, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := send(); code != exitOK || out != "" {
		t.Fatalf("exit %d, %s", code, out)
	}
	list, err := filepath.Glob(filepath.Join(dir, "router/[0-9]*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%q, %v", list, err)
	}
	info, err := os.Stat(list[0])
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("%v, %v", info, err)
	}
	text, _ := os.ReadFile(list[0])
	if !strings.HasSuffix(string(text), "channel error\nto <x@y.example>\nenv-end\nSubject: x\n\nbody\n") {
		t.Errorf("%q", text)
	}
	if err := os.Chmod(filepath.Join(dir, "router"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code, out := send(); code != exitNoPerm || !strings.Contains(out, "permission denied") {
		t.Errorf("closed router/: exit %d, %s", code, out)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "public")); len(left) != 0 {
		t.Errorf("left in public/: %v", left)
	}
}
