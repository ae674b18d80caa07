package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zsched/internal/version"
)

// The test binary runs as hold if PLAY says so.
func TestMain(m *testing.M) {
	if os.Getenv("PLAY") == "hold" {
		main()
	}
	os.Exit(m.Run())
}

func TestHold(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"transport", "queue", "public", "router", "mailbin/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		if err := os.Mkdir(filepath.Join(dir, "router", string(c)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	control := "i 7\no 0\ns smtp mx alice 0\nr           hold SCRIPT:ready bob@example.net 0\nm\nA: b\n\n"
	for file, text := range map[string]string{"transport/7": control, "queue/7": "body\n", "mailbin/bin/ready": "#!/bin/sh\n",
		"zmailer.conf": "ROUTERDIRHASH=1\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		argv0, args, told, said string
		zconfig                 string
		status                  int
	}{
		{filepath.Join(dir, "elsewhere/ta/hold"), "-c hold", "7\tscript:ready\n", "\tdeferred script ready: ", "zmailer.conf", 0},
		{filepath.Join(dir, "mailbin/ta/hold"), "-c hold", "7\tscript:ready\n", "\tok3 submitted again as ", "zmailer.conf", 0},
		{"hold", "-V", "", "hold " + version.Number, "", 0},
		{"hold", "--marking nobody", "", "", "", 64},
		{"hold", "one two", "", "", "", 64},
		{"hold", "", "", "", "missing", 64},
	} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = append([]string{c.argv0}, strings.Fields(c.args)...)
		cmd.Env = []string{"PLAY=hold", "GORACE=atexit_sleep_ms=0"}
		if c.zconfig != "" {
			cmd.Env = append(cmd.Env, "ZCONFIG="+filepath.Join(dir, c.zconfig))
		}
		cmd.Dir = filepath.Join(dir, "transport")
		cmd.Stdin = strings.NewReader(c.told)
		out, _ := cmd.Output()
		if !strings.Contains(string(out), c.said) || cmd.ProcessState.ExitCode() != c.status {
			t.Errorf("hold %s: %q, %v", c.args, out, cmd.ProcessState)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "router/[A-Z]/*")); err != nil || len(files) != 1 {
		t.Errorf("the letters of router/ have %v, %v", files, err)
	}
}
