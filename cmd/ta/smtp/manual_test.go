package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"zsched/cmd/ta/internal/program"
)

func newTestCommand() *command {
	return newCommand(program.New("smtp", "smtp", io.Discard, io.Discard))
}

// Every option has its paragraph in smtp(8), and every paragraph its option.
func TestOptionsAreThoseOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../../man/smtp.8")
	if err != nil {
		t.Fatal(err)
	}
	_, options, _ := strings.Cut(string(text), ".SH OPTIONS")
	options, _, _ = strings.Cut(options, ".SH FILES")
	told := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\.BI? (\\-\S+)`).FindAllStringSubmatch(options, -1) {
		told[strings.ReplaceAll(m[1], `\`, "")] = true
	}
	newTestCommand().program.Flags.VisitAll(func(f *pflag.Flag) {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		}
		if !told[name] {
			t.Errorf("option %s is not in smtp(8)", name)
		}
		delete(told, name)
	})
	for name := range told {
		t.Errorf("smtp(8) has an option %s", name)
	}
}

// The agent accepts every command in the documentation that somebody could copy.
func TestExamplesOfClausesAreTaken(t *testing.T) {
	seen := 0
	for _, name := range []string{"scheduler.cf.example", "man/scheduler.cf.5", "man/smtp.8", "packaging/demo"} {
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		// Undo the escapes of manual pages and shell scripts.
		plain := strings.NewReplacer(`\-`, "-", `\$`, "$").Replace(string(text))
		for _, m := range regexp.MustCompile(`command="smtp ([^"]*)"`).FindAllStringSubmatch(plain, -1) {
			line := strings.ReplaceAll(m[1], "\\\n", "")
			line = regexp.MustCompile(`\$\{?\w+\}?`).ReplaceAllString(line, "1")
			if err := newTestCommand().parse(strings.Fields(line)); err != nil {
				t.Errorf("%s: smtp %s: %v", name, line, err)
			}
			seen++
		}
	}
	if seen < 8 {
		t.Errorf("only %d examples were found", seen)
	}
}
