// Package metricstest asks a program for its metrics, for tests.
package metricstest

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Get asks the server at a UNIX socket for a path.
func Get(t testing.TB, socket, path string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
	}}
	answer, err := client.Get("http://metrics" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// HasLines tests that the metrics have each line.
func HasLines(t testing.TB, body string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// HasNames tests that the metrics have each name of a program that stands in the files, and that
// each file has some.
func HasNames(t testing.TB, body, program string, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b`+program+`_\w+`).FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range names {
			if !strings.Contains(body, "\n"+name+" ") && !strings.Contains(body, "\n"+name+"{") {
				t.Errorf("%s names %s, which is not a metric", file, name)
			}
		}
	}
}
