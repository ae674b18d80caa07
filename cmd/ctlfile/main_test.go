package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"zsched/internal/version"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"ctlfile": main})
}

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

func TestSubmitTellsTheScheduler(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"transport", "queue"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	submit := func() (path string) {
		t.Helper()
		var stdout, stderr strings.Builder
		args := []string{"submit", "-P", dir, "-H", "1", "--from", "a@b", "local/-/c"}
		if code := run(args, strings.NewReader("A: b\n\nc\n"), &stdout, &stderr); code != 0 || stderr.String() != "" {
			t.Fatalf("%v: exit %d, %s", args, code, &stderr)
		}
		return strings.TrimSpace(stdout.String())
	}
	submit() // no scheduler listens: not an error
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, ".scheduler.notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	path, b := submit(), make([]byte, 100)
	if n, err := socket.Read(b); err != nil || string(b[:n]) != "NEW "+path {
		t.Errorf("heard %q, %v; want NEW %s", b[:n], err, path)
	}
}

func TestManualHasEveryOption(t *testing.T) {
	page, err := os.ReadFile("../../man/ctlfile.1")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), `\-`, "-")
	newFlags(new(submission)).VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(text, "--"+f.Name+" ") && !strings.Contains(text, "--"+f.Name+"\n") {
			t.Errorf("--%s is not in the manual page", f.Name)
		}
	})
}

func TestVersionAndHelp(t *testing.T) {
	for _, arg := range []string{"--version", "-V"} {
		var stdout strings.Builder
		if code := run([]string{arg}, nil, &stdout, io.Discard); code != 0 || !strings.HasPrefix(stdout.String(), "ctlfile "+version.Number) {
			t.Errorf("%s: exit %d, %q", arg, code, stdout.String())
		}
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"submit", "--help"}} {
		var stdout strings.Builder
		if code := run(args, nil, &stdout, io.Discard); code != 0 || !strings.Contains(stdout.String(), "as a router does") {
			t.Errorf("%v: exit %d, %q", args, code, stdout.String())
		}
	}
}
