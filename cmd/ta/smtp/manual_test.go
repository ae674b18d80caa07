package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"zsched/ta"
)

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
	newCommand(&ta.Server{}, io.Discard).flags.VisitAll(func(f *pflag.Flag) {
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
