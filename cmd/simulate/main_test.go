package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScenesAreSelected(t *testing.T) {
	var out, errs strings.Builder
	dir := t.TempDir()
	if code := run([]string{"--doc", dir, "sequences", "growth"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	for _, want := range []string{"(sequences)", "12131415", "(growth)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the output", want)
		}
	}
	if strings.Contains(out.String(), "(limiter)") || strings.Contains(out.String(), ".svg") {
		t.Error("the output has more than the figures of two scenes")
	}
	if _, err := os.Stat(filepath.Join(dir, "growth.svg")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "README.md")); err == nil {
		t.Error("the page is written although not all scenes have run")
	}
}

func TestWrongUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"nothing"}, `unknown scene "nothing"`},
		{[]string{"--sead", "1"}, "unknown flag: --sead"},
		{[]string{"--seed", "x"}, "invalid argument"},
	} {
		var out, errs strings.Builder
		if code := run(tt.args, &out, &errs); code != 2 || !strings.Contains(errs.String(), tt.want) {
			t.Errorf("%v: exit %d, %s", tt.args, code, errs.String())
		}
	}
	var out, errs strings.Builder
	if code := run([]string{"--help"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "scenes: growth limiter") {
		t.Errorf("--help: exit %d, %s", code, out.String())
	}
	out.Reset()
	if code := run([]string{"--doc", filepath.Join(t.TempDir(), "missing"), "growth"}, &out, &errs); code != 1 {
		t.Errorf("without the directory: exit %d", code)
	}
}
