package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"zsched/internal/command"
	"zsched/internal/process"
	"zsched/queue"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"xferd": main}) }

// refused starts xferd, which has to end with an error that has the text why.
func refused(t *testing.T, conf, why string) {
	t.Helper()
	tooLong, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(tooLong, "xferd", "-i", "-Z", conf).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != command.ExitFault || !strings.Contains(string(out), why) {
		t.Errorf("%v, %s; want %q", err, out, why)
	}
}

// When the postoffice is replaced, xferd ends within seconds.
func TestXferdEndsWhenThePostofficeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, is := time.Now(), fmt.Errorf("queue is %w", process.ErrReplaced)
		check := func() error {
			if time.Since(began) < 3*checkInterval {
				return errors.New("this may pass")
			}
			return is
		}
		if err := wait(context.Background(), check); err != is || time.Since(began) > 4*checkInterval {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A second xferd in a postoffice ends, and leaves the files alone that the first one is
// writing: they are not recorded yet, as those are not that a crash has left.
func TestASecondXferdTouchesNothing(t *testing.T) {
	dir := t.TempDir()
	office := filepath.Join(dir, "po")
	written := []string{"queue/88", "transport/.xfer/S88XMVQKNOA"}
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
	first, err := process.NewClaim(office, "xferd", queue.XferStaging)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for i := range 2 {
		if i == 1 {
			if err := os.Remove(filepath.Join(office, ".pid.xferd")); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, filepath.Join(dir, "zmailer.conf"), "another xferd is running in this postoffice")
	}
	for _, name := range written {
		if _, err := os.Stat(filepath.Join(office, name)); err != nil {
			t.Errorf("the second xferd removed a file of the first: %v", err)
		}
	}
	for _, name := range []string{"transport/.xfer/taken", "xfer"} {
		if _, err := os.Stat(filepath.Join(office, name)); err == nil {
			t.Errorf("the second xferd made %s", name)
		}
	}
}
