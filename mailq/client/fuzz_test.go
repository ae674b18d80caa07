package client

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
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
			p := &Printer{Out: &out, Now: captureTime, Terminal: true, Verbose: 1}
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

// FuzzDump: a dump that is accepted has every job at most once, and printed
// as a server prints it, it is read the same.
func FuzzDump(f *testing.F) {
	f.Add("Vertices:\n1:\tH/1\t2; 217,127\t#later\n2:\t12\t1; 98\nChannels:\nsmtp:\t>2>1\nHosts:\nx:\t>2>1\nEnd:\n")
	f.Add("Vertices:\nEnd:\n")
	f.Fuzz(func(t *testing.T, text string) {
		read := func(text string) (*Dump, error) {
			c, err := dialScripted(mailq.GreetingV1 + "\n" + text)
			if err != nil {
				t.Fatal(err)
			}
			return c.Dump()
		}
		d, err := read(text)
		if err != nil {
			return
		}
		again, err := read(dumped(d))
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(again) != fmt.Sprint(d) {
			t.Errorf("%v, again %v", d, again)
		}
	})
}

// dumped writes a dump.
func dumped(d *Dump) string {
	var jobs, channels, hosts strings.Builder
	key := 0
	for i := len(d.Threads) - 1; i >= 0; i-- {
		thread := &d.Threads[i]
		fmt.Fprintf(&channels, "%s:\t", thread.Channel)
		fmt.Fprintf(&hosts, "%s:\t", thread.Host)
		for j := len(thread.Jobs) - 1; j >= 0; j-- {
			job := &thread.Jobs[j]
			key++
			offsets := strings.ReplaceAll(strings.Trim(fmt.Sprint(job.Offsets), "[]"), " ", ",")
			fmt.Fprintf(&jobs, "%d:\t%s\t%d; %s", key, job.Path, job.Recipients, offsets)
			if job.HasText {
				fmt.Fprintf(&jobs, "\t#%s", job.Text)
			}
			jobs.WriteByte('\n')
			fmt.Fprintf(&channels, ">%d", key)
			fmt.Fprintf(&hosts, ">%d", key)
		}
		channels.WriteByte('\n')
		hosts.WriteByte('\n')
	}
	text := "Vertices:\n" + jobs.String()
	if key > 0 {
		text += "Channels:\n" + channels.String() + "Hosts:\n" + hosts.String()
	}
	return text + "End:\n"
}

// FuzzRecipientLine: a line that is accepted, written and read again is the
// same recipient.
func FuzzRecipientLine(f *testing.F) {
	f.Add("M/836224\t0\talice@sender.example\t210\t1795666563\t1795234580\t1795234563\t1\tretry in 8s\tsmtp; 500 (refused)")
	f.Add("1\ta\t98\t0\t0\t0\t0\tthread\tsays\tmore")
	f.Fuzz(func(t *testing.T, line string) {
		index, job, err := parseRecipient(line)
		if err != nil {
			if KindOf(err) != Unavailable {
				t.Errorf("%v", err)
			}
			return
		}
		seconds := func(at time.Time) int64 {
			if at.IsZero() {
				return 0
			}
			return at.Unix()
		}
		r := job.Recipients[0]
		written := fmt.Sprintf("%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\twhy\t%s", job.Path, index, job.Sender, r.Offset,
			seconds(job.ExpiresAt), seconds(job.WakeAt), seconds(job.FedAt), r.Attempts, r.Reason)
		indexAgain, again, err := parseRecipient(written)
		if err != nil || indexAgain != index || !reflect.DeepEqual(again, job) {
			t.Errorf("%+v, again %+v, %v", job, again, err)
		}
	})
}

// FuzzObjects: the JSON of a server gives objects or an error that ends them.
func FuzzObjects(f *testing.F) {
	f.Add(`{"ring":1,"channel":"smtp","host":"x","jobs":3,"wake_at":"2026-11-21T10:00:00Z"}` + "\n" + `{"error":"no"}`)
	f.Add(`{"path":"H/1","recipients":[{"offset":1,"attempts":2,"reason":"x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		ended := false
		for _, err := range Objects[mailq.ThreadItem](linesOf(text)) {
			if ended {
				t.Fatal("an object after an error")
			}
			ended = err != nil
		}
		for _, err := range Objects[mailq.Job](linesOf(text)) {
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
