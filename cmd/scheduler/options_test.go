package main

import (
	"bytes"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"zsched/internal/version"
	"zsched/scheduler/rule"
)

func TestOptionsAreReadFromLeftToRight(t *testing.T) {
	for _, c := range []struct {
		args string
		want func(*options)
	}{
		{"", func(o *options) {}},
		{"-i", func(o *options) { o.daemon = false }},
		{"-v", func(o *options) { o.verbose, o.daemon = true, false }},
		{"-vd", func(o *options) { o.verbose = true }},
		{"-dv", func(o *options) { o.verbose, o.daemon = true, false }},
		{"-vW", func(o *options) { o.verboseLater, o.daemon = true, false }},
		{"-Wv", func(o *options) { o.verbose, o.daemon = true, false }},
		{"-W", func(o *options) {}},
		{"-H", func(o *options) { o.hashLevels = 1 }},
		{"-HHH", func(o *options) { o.hashLevels = 2 }},
		{"-nn", func(o *options) {}},
		{"-n", func(o *options) { o.returnHeaders = true }},
		{"-E 100,1", func(*options) {}},
		{"-N 9", func(o *options) {}},
		{"-N 64", func(o *options) { o.agentFiles = 64 }},
		{"-R 0", func(o *options) { o.forkRate = 1 }},
		{"-R100", func(o *options) { o.forkRate = 100 }},
		{"-M 2", func(o *options) { o.mailqVersion = 2 }},
		{"-p SMTP/*", func(o *options) { o.only = rule.Selection{Channel: "smtp", Host: "*"} }},
		{"-iFSQ -q r", func(o *options) {
			o.daemon, o.frozen, o.synchronous, o.queueMode = false, true, true, true
			o.rendezvous = "r"
		}},
		{"--interactive --config=c --zmailer-conf z --postoffice p --log L --statistics l --check", func(o *options) {
			o.daemon, o.check = false, true
			o.config, o.zenv, o.postoffice, o.log, o.statistics = "c", "z", "p", "L", "l"
		}},
	} {
		want := options{daemon: true, agentFiles: 32, forkRate: 30}
		c.want(&want)
		got, err := parseOptions(strings.Fields(c.args))
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.args, *got, want)
		}
	}
}

func TestWrongUseHasItsExitCode(t *testing.T) {
	for _, c := range []struct {
		args, says string
		code       int
	}{
		{"-M 3", "the argument of -M is 1 or 2", 64},
		{"-p smtp", "the argument of -p is channel/host", 64},
		{"-X", "usage: scheduler", 64},
		{"--nonsense", "usage: scheduler", 64},
		{"-f", "usage: scheduler", 64},
		{"-R many", "usage: scheduler", 64},
		{"-Z /nonexistent/zmailer.conf -i", "no such file", 1},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), nil, &stdout, &stderr); code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.args, code, c.code)
		}
		if !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%s: says %q, want %q in it", c.args, stderr.String(), c.says)
		}
	}
}

func TestVersionAndHelpGoToStandardOutput(t *testing.T) {
	for args, says := range map[string]string{"-V": "scheduler " + version.Number, "--help": "--check"} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(args), nil, &stdout, &stderr)
		if code != 0 || !strings.Contains(stdout.String(), says) || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
}

func TestEveryOptionIsInTheManualPage(t *testing.T) {
	page, err := os.ReadFile("../../man/scheduler.8")
	if err != nil {
		t.Fatal(err)
	}
	newFlags(new(options)).VisitAll(func(f *pflag.Flag) {
		names := []string{"--" + f.Name}
		if f.Shorthand != "" {
			names = append(names, "-"+f.Shorthand)
		}
		for _, name := range names {
			if written := strings.ReplaceAll(name, "-", `\-`); !strings.Contains(string(page), written) {
				t.Errorf("scheduler(8) does not have %s", name)
			}
		}
	})
}
