package config

import (
	"errors"
	goflag "flag"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = goflag.Bool("update", false, "rewrite testdata/wrong.txt")

// A file with every mistake there is, and what is said about it.
func TestErrorsArePlain(t *testing.T) {
	data, err := os.ReadFile("testdata/wrong.cf")
	if err != nil {
		t.Fatal(err)
	}
	file, err := Parse("wrong.cf", data, debian(0))
	if err == nil || file != nil {
		t.Fatal("the file is accepted")
	}
	got := err.Error() + "\n"
	if *update {
		if err := os.WriteFile("testdata/wrong.txt", []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/wrong.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// ZMailer went on with what stood before the quote.
func TestUnclosedQuoteIsAnError(t *testing.T) {
	for _, text := range []string{"x command=y\n a=\"b", "x command=\"y", "x command=\"y \\\n", "x command=\"y \\"} {
		if _, err := Parse("f", []byte(text), debian(0)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// The value that follows would otherwise be part of a pattern, or of a keyword
// that was meant to be a flag.
func TestEqualsSignOnALaterLineIsAnError(t *testing.T) {
	for text, place := range map[string]string{
		"smtp/* command=y\nx/*\n\t=5":           "f:3:2",
		"x command=y\n queueonly\n = 5m":        "f:3:2",
		"x command=y\n queueonly # often\n =5m": "f:3:2",
		"x command=y\n queueonly\n\n =\"z\"":    "f:4:2",
	} {
		_, err := Parse("f", []byte(text), debian(0))
		var wrong Errors
		if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Place.String() != place {
			t.Errorf("%q: %v, want an error at %s", text, err, place)
		}
	}
}

// One that was, like everything else with an error, reported beside others.
func TestAllErrorsAreReportedInOrder(t *testing.T) {
	_, err := Parse("f", []byte("x a=1\n b=2\n c=\"3\n d=4\ny e"), debian(0))
	var wrong Errors
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	var places []string
	for _, e := range wrong {
		places = append(places, e.Place.String())
	}
	if want := []string{"f:1:3", "f:2:2", "f:3:2", "f:4:2", "f:5:3"}; !slices.Equal(places, want) {
		t.Errorf("got %v, want %v", places, want)
	}
}

func TestEmptyFileIsAnError(t *testing.T) {
	for _, text := range []string{"", "\n", "# c\n", "PARAMmailqsock=174\n", " \t\r\n"} {
		_, err := Parse("f", []byte(text), debian(0))
		if err == nil || err.Error() != "f:1:1: there is no clause in the file" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Others may read the log, and the error of the last reload is in the replies to queries.
func TestErrorsShowNoPasswordOfTheStore(t *testing.T) {
	for _, address := range []string{`"rediss//u:secret@h"`, `rediss//u:secret@h`, `"u:secret@h"`, `"secret@h"`, `"redis://u:se cret@h"`, `"redis://u:secret@h/x"`} {
		_, err := Parse("f", []byte("PARAMcluster = "+address+"\nx/* command=y\n"), debian(0))
		if err == nil || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
