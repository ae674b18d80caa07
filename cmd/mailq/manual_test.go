package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestManualHasEverything: each subcommand and each option stands in mailq(1), under OPTIONS or
// SUBCOMMANDS and in an example, and each exit code.
func TestManualHasEverything(t *testing.T) {
	text, err := os.ReadFile("../../man/mailq.1")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	section := func(name string) string {
		_, after, found := strings.Cut(page, "\n.SH "+name+"\n")
		if !found {
			t.Fatalf("no section %s", name)
		}
		before, _, _ := strings.Cut(after, "\n.SH ")
		return before
	}
	listed, examples, codes := section("OPTIONS")+section("SUBCOMMANDS"), section("EXAMPLES"), section("EXIT STATUS")
	flag := func(f *pflag.Flag) {
		long := `\-\-` + strings.ReplaceAll(f.Name, "-", `\-`)
		if !regexp.MustCompile(`(?m)^\.\w+ .*` + regexp.QuoteMeta(long) + `\b`).MatchString(listed) {
			t.Errorf("--%s is not explained", f.Name)
		}
		shown := strings.Contains(examples, long)
		if f.Shorthand != "" {
			shown = shown || regexp.MustCompile(`\s\\-\w*`+f.Shorthand).MatchString(examples)
		}
		if !shown {
			t.Errorf("--%s has no example", f.Name)
		}
	}
	root := newCommands(&program{options: new(options)}, io.Discard, io.Discard)
	root.PersistentFlags().VisitAll(flag)
	root.Flags().VisitAll(flag)
	for _, c := range root.Commands() {
		c.Flags().VisitAll(flag)
		if !regexp.MustCompile(`(?m)^\.B\w* .*\b` + c.Name() + `\b`).MatchString(listed) {
			t.Errorf("%s is not explained", c.Name())
		}
		if !strings.Contains(examples, "mailq "+c.Name()) {
			t.Errorf("%s has no example", c.Name())
		}
	}
	for _, code := range []string{"0", "1", "64", "69", "72"} {
		if !strings.Contains(codes, ".TP\n"+code+"\n") {
			t.Errorf("exit code %s is not listed", code)
		}
	}
}

// The manual explains every value of pend=.
func TestManualHasEveryPend(t *testing.T) {
	source, err := os.ReadFile("../../mailq/server/pending.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../man/mailq.1")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "\n.B pend\n")
	text, _, _ := strings.Cut(after, "\n.TP\n")
	values := regexp.MustCompile(`(?:=|:) +"([^"]*)"`).FindAllStringSubmatch(string(source), -1)
	for _, v := range values {
		if !slices.Contains(strings.Fields(text), v[1]) {
			t.Errorf("%s is missing", v[1])
		}
	}
	if len(values) < 15 {
		t.Errorf("%d values", len(values))
	}
}
