package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"zsched/internal/process"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"xferd": main}) }

// A second xferd in a postoffice ends, and leaves the files alone that the first one is
// writing: they are not recorded yet, as those are not that a crash has left.
func TestASecondXferdTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	office := filepath.Join(dir, "po")
	written := []string{"queue/.xfer/m-1", "transport/.xfer/c-1"}
	for _, name := range written {
		path := filepath.Join(office, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"zmailer.conf": "POSTOFFICE=" + office + "\nMAILSHARE=" + dir + "\n",
		"scheduler.cf": "PARAMnode=mx1\nPARAMxfer-nodes=" + dir + "/nodes\n*/*\texpiry=3d\n",
		"nodes":        "mx1 UNIX:" + office + "/xfer\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := process.Lock(filepath.Join(office, ".pid.xferd"), "xferd")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	tooLong, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(tooLong, "xferd", "-i", "-Z", filepath.Join(dir, "zmailer.conf")).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFault || !strings.Contains(string(out), "another xferd is running in this postoffice") {
		t.Errorf("%v, %s", err, out)
	}
	for _, name := range written {
		if _, err := os.Stat(filepath.Join(office, name)); err != nil {
			t.Errorf("the second xferd removed a file of the first: %v", err)
		}
	}
	for _, name := range []string{"transport/.xfer/origins", "xfer"} {
		if _, err := os.Stat(filepath.Join(office, name)); err == nil {
			t.Errorf("the second xferd made %s", name)
		}
	}
}
