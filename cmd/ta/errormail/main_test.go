package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zsched/internal/version"
)

// The test binary runs as errormail if PLAY says so.
func TestMain(m *testing.M) {
	if os.Getenv("PLAY") == "errormail" {
		main()
	}
	os.Exit(m.Run())
}

func TestErrormail(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"transport", "queue", "public", "postman", "router/H", "forms"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for c := 'A'; c <= 'Z'; c++ {
		if err := os.MkdirAll(filepath.Join(dir, "router", string(c)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	control := "i 7\no 0\ns smtp mx alice 0\nr           error nosuchuser bob@example.net 0\nm\nA: b\n\n"
	for file, text := range map[string]string{"transport/7": control, "queue/7": "the body\n",
		"zmailer.conf": "ROUTERDIRHASH=1\nROUTERMAXSIZE=1\nORGDOMAIN=mx.example\nMAILSHARE=" + dir + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 {
		// A message of a user that is too large for other agents.
		if err := os.Chown(filepath.Join(dir, "queue/7"), 4711, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args, told, said string
		zconfig          string
		status           int
	}{
		{"-c error -n", "7\tnosuchuser\n", "\tok3 notice router/", "zmailer.conf", 0},
		{"-V", "", "errormail " + version.Number, "", 0},
		{"one two", "", "", "", 64},
		{"", "", "", "missing", 64},
	} {
		cmd := exec.Command("/proc/self/exe", strings.Fields(c.args)...)
		cmd.Args[0] = "errormail"
		cmd.Env = []string{"PLAY=errormail", "GORACE=atexit_sleep_ms=0"}
		if c.zconfig != "" {
			cmd.Env = append(cmd.Env, "ZCONFIG="+filepath.Join(dir, c.zconfig))
		}
		cmd.Dir = filepath.Join(dir, "transport")
		cmd.Stdin = strings.NewReader(c.told)
		out, _ := cmd.Output()
		if !strings.Contains(string(out), c.said) || cmd.ProcessState.ExitCode() != c.status {
			t.Errorf("errormail %s: %q, %v", c.args, out, cmd.ProcessState)
		}
	}
	// The scheduler says by the environment that notices about null senders are kept.
	for _, env := range []string{"STOREERRORS=", "STOREERRORS=yes"} {
		null := strings.Replace(control, "s smtp mx alice 0", "s error <> <> 0", 1)
		if err := os.WriteFile(filepath.Join(dir, "transport/7"), []byte(null), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/proc/self/exe")
		cmd.Args[0] = "errormail"
		cmd.Env = []string{"PLAY=errormail", "GORACE=atexit_sleep_ms=0", "ZCONFIG=" + filepath.Join(dir, "zmailer.conf"), env}
		cmd.Dir, cmd.Stdin = filepath.Join(dir, "transport"), strings.NewReader("7\tnosuchuser\n")
		out, _ := cmd.Output()
		if strings.Contains(string(out), "\tok3 notice postman/") != (env == "STOREERRORS=yes") {
			t.Errorf("%s: %q", env, out)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "router/[A-Z]/*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the letters of router/ have %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(text), "dns; mx.example\n") || strings.Contains(string(text), "the body") {
		t.Errorf("%s, %v", text, err)
	}
}
