package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"zsched/internal/bytesize"
	"zsched/internal/zenv"
	"zsched/scheduler/config"
)

// The queue that README proposes is the first one that many people see.
func TestConfigurationOfReadmeIsCheckedWithoutAWarning(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	here := strings.NewReplacer("/home/you", home)
	for _, dir := range []string{"po/transport", "po/queue", "po/router", "po/public", "po/postman", "zsched/bin/ta"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, "zsched/bin/ta/discard"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	// A comment with a path begins a file.
	files := regexp.MustCompile("(?m)^# (/home/you/\\S+)\n((?:[^#`\n].*\n|\n)+)").FindAllStringSubmatch(string(readme), -1)
	if len(files) != 2 {
		t.Fatalf("README has %d files of a configuration: %q", len(files), files)
	}
	for _, file := range files {
		writeFile(t, here.Replace(file[1]), here.Replace(file[2]))
	}
	command := regexp.MustCompile(`(?m)^bin/scheduler (--check .*)$`).FindSubmatch(readme)
	if command == nil {
		t.Fatal("README does not check the configuration")
	}
	var stdout, stderr bytes.Buffer
	code := run(strings.Fields(here.Replace(string(command[1]))), nil, &stdout, &stderr)
	if code != exitOK || stderr.Len() > 0 || !strings.Contains(stdout.String(), "2 clauses, no errors") {
		t.Errorf("exit %d, %s%s", code, &stdout, &stderr)
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
		if n, err := bytesize.Parse(string(m[1])); err != nil || n <= 0 || n > 1<<30 {
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
