package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zsched/internal/units"
	"zsched/internal/zenv"
	"zsched/scheduler/config"
)

// The queue that README proposes is the first one that many people see.
func TestFirstPostofficeIsCheckedWithoutAWarning(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "po")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--init", dir}, nil, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("exit %d, %s", code, &stderr)
	}
	env := filepath.Join(dir, "zmailer.conf")
	if want := filepath.Dir(program) + "/scheduler -i -M 2 -Z " + env; !strings.Contains(stdout.String(), want) {
		t.Errorf("it does not say %q, but %s", want, &stdout)
	}
	text, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	// The agent is beside the built program, not beside this test.
	bin := t.TempDir()
	if err := os.Mkdir(filepath.Join(bin, "ta"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "ta", "discard"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, env, strings.ReplaceAll(string(text), "MAILBIN="+filepath.Dir(program), "MAILBIN="+bin))
	stdout.Reset()
	code := run([]string{"--check", "-Z", env}, nil, &stdout, &stderr)
	if code != exitOK || stderr.Len() > 0 || !strings.Contains(stdout.String(), "2 clauses, no errors") {
		t.Errorf("exit %d, %s%s", code, &stdout, &stderr)
	}
	if code := run([]string{"--init", dir}, nil, &stdout, &stderr); code != exitFault || !strings.Contains(stderr.String(), "is not empty") {
		t.Errorf("a second time: exit %d, %s", code, &stderr)
	}
}

// A message with very many recipients makes the logs grow by 100 MB with each attempt.
func TestLogsOfTheInstallationAreBounded(t *testing.T) {
	text, err := os.ReadFile("../../packaging/logrotate")
	if err != nil {
		t.Fatal(err)
	}
	maxsize := regexp.MustCompile(`(?m)^\tmaxsize (\S+)$`).FindAllSubmatch(text, -1)
	if blocks := bytes.Count(text, []byte("{\n")); blocks == 0 || len(maxsize) != blocks {
		t.Errorf("%d of %d blocks have maxsize", len(maxsize), blocks)
	}
	for _, m := range maxsize {
		if n, err := units.ParseSize(string(m[1])); err != nil || n <= 0 || n > 1<<30 {
			t.Errorf("maxsize %s, %v", m[1], err)
		}
	}
}

// In version 1 there are no orders and no explanations. The auth file says who may use them.
func TestUnitSpeaksVersion2(t *testing.T) {
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^ExecStart=@MAILBIN@/scheduler (.*)$`).FindSubmatch(unit)
	if command == nil {
		t.Fatal("the unit has no command")
	}
	o, err := parseOptions(strings.Fields(string(command[1])))
	if err != nil || o.mailqVersion != 2 || o.daemon || o.config != "" {
		t.Errorf("the unit has the options %+v, %v", o, err)
	}
	// make install makes the auth file beside the configuration, which is the example.
	file, err := config.Load("../../scheduler.cf.example", zenv.Parse([]byte("MAILSHARE=/share\nLOGDIR=/log\n")))
	if err != nil {
		t.Fatal(err)
	}
	if have := file.Params.AuthFile; have != "/share/scheduler.auth" {
		t.Errorf("the example names the auth file %q", have)
	}
	install, err := os.ReadFile("../../packaging/install")
	if err != nil || !strings.Contains(string(install), `mv "$share/scheduler.auth.new" "$share/scheduler.auth"`) {
		t.Errorf("make install makes no auth file, %v", err)
	}
}
