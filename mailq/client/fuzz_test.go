package client

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"zsched/mailq"
)

// dialScripted begins a dialogue with a server that writes a text and reads
// nothing.
func dialScripted(server string) (*Client, error) {
	return New(scriptedServer{Reader: strings.NewReader(server)}, Options{Server: "here"})
}

type scriptedServer struct {
	net.Conn
	io.Reader
}

func (d scriptedServer) Read(b []byte) (int, error)  { return d.Reader.Read(b) }
func (d scriptedServer) Write(b []byte) (int, error) { return len(b), nil }
func (d scriptedServer) Close() error                { return nil }

// FuzzClient: whatever a server sends, the dialogue ends, and nothing that
// commands a terminal is printed.
func FuzzClient(f *testing.F) {
	files, err := filepath.Glob("testdata/*.server")
	if err != nil || len(files) == 0 {
		f.Fatalf("no sessions: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var server strings.Builder
		for line := range strings.Lines(string(text)) {
			if text, ok := strings.CutPrefix(line, "S: "); ok {
				server.WriteString(text)
			}
		}
		f.Add(server.String())
	}
	f.Fuzz(func(t *testing.T, server string) {
		for _, show := range []string{"", "SHOW SNMP"} {
			c, err := dialScripted(server)
			if err != nil {
				if KindOf(err) == 0 {
					t.Errorf("%v has no kind", err)
				}
				continue
			}
			var out strings.Builder
			p := &Printer{Out: &out, Now: captureTime, Terminal: true, Verbose: true}
			if err := printQueue(c, p, show); err != nil && KindOf(err) == 0 {
				t.Errorf("%v has no kind", err)
			}
			if i := strings.IndexFunc(out.String(), func(r rune) bool {
				return unicode.IsControl(r) && r != '\n' && r != '\t'
			}); i >= 0 {
				t.Errorf("control byte at %d of %q", i, &out)
			}
		}
	})
}

// FuzzObjects: the JSON of a server gives objects or an error that ends them.
func FuzzObjects(f *testing.F) {
	f.Add(`{"ring":1,"channel":"smtp","host":"x","job_lines":3,"wake_at":"2026-11-21T10:00:00Z"}` + "\n" + `{"error":"no"}`)
	f.Add(`{"path":"H/1","recipients":[{"offset":1,"attempts":2,"reason":"x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		ended := false
		for _, err := range Objects[mailq.Thread](linesOf(text)) {
			if ended {
				t.Fatal("an object after an error")
			}
			ended = err != nil
		}
		for _, err := range Objects[mailq.JobLine](linesOf(text)) {
			if err != nil && KindOf(err) == 0 {
				t.Errorf("%v has no kind", err)
			}
		}
	})
}

func linesOf(text string) func(func(string, error) bool) {
	return func(yield func(string, error) bool) {
		for line := range strings.SplitSeq(text, "\n") {
			if !yield(line, nil) {
				return
			}
		}
	}
}
