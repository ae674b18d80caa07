package smtpserver

import (
	"bufio"
	"crypto/tls"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

// The examples of the RFCs, each a file of testdata/rfc:
//
//	RFC 5321 D.2: the client gives a message up.
//	# A comment.
//	S: 250-SIZE                 a reply of several lines names extensions, in any order
//	S: 250 DSN
//	C: MAIL FROM:<a@b.example>  commands that follow each other are sent together
//	S: 250 2.1.0                reply code and enhanced code; without one, the reply has none
//	S: 252 2.5.0, not 250: why our answer is not the RFC's
//	NETWORK                     the client of the example is in a known network; others are strangers
//	TLS                         the handshake
//	Q: jones@ours.example       the recipients of a message that is in router/ at the end
//
// The server's name is mx.ours.example, and the users green and nosuchuser do not exist.
func TestExamplesOfTheRFCs(t *testing.T) {
	files, err := filepath.Glob("testdata/rfc/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { playExample(t, file) })
	}
}

func playExample(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if !strings.HasPrefix(lines[0], "RFC ") {
		t.Fatalf("the first line is %q", lines[0])
	}
	s := startForExamples(t)
	client := "127.1.2.9"
	if slices.Contains(lines, "NETWORK") {
		client = "127.0.0.1"
	}
	d := s.dialFrom(client) // it reads the greeting
	var extensions, want []string
	for i, line := range lines[1:] {
		kind, rest, _ := strings.Cut(line, ":")
		rest = strings.TrimPrefix(rest, " ")
		switch {
		case kind == "C":
			d.send(rest + "\r\n")
		case kind == "S" && strings.HasPrefix(rest, "250-"):
			extensions = append(extensions, rest[4:])
		case kind == "S":
			checkReply(t, d.reply(), rest, extensions, i+2)
			extensions = nil
		case kind == "Q":
			want = append(want, rest)
		case line == "TLS":
			conn := tls.Client(d.conn, &tls.Config{InsecureSkipVerify: true})
			d.conn, d.in = conn, bufio.NewReader(conn)
		case line != "" && line != "NETWORK" && line[0] != '#':
			t.Fatalf("line %d is %q", i+2, line)
		}
	}
	d.ended()
	got := s.recipients()
	slices.Sort(got) // no order is promised
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("messages in router/ are to %q, want %q", got, want)
	}
}

func startForExamples(t *testing.T) *started {
	hash, err := bcrypt.GenerateFromPassword([]byte("1234"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	passwords := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(passwords, []byte("test:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, func(o *Options) {
		o.Passwords = passwords
		o.CheckRecipient = func(address string) error {
			if name, _, _ := strings.Cut(address, "@"); name == "green" || name == "nosuchuser" {
				return ErrNoUser
			}
			return nil
		}
	})
}

// codes are the reply code and the enhanced code of a line.
var codes = regexp.MustCompile(`^(\d{3})[ -](\d\.\d+\.\d+)?`)

// checkReply compares a reply with the last line of what the example has for it, and with the
// extensions of the lines before.
func checkReply(t *testing.T, reply, want string, extensions []string, line int) {
	t.Helper()
	if len(extensions) > 0 {
		extensions = append(extensions, want[4:])
	}
	for _, extension := range extensions {
		if !regexp.MustCompile(`(?m)^250[ -]` + extension + `( .*)?\r$`).MatchString(reply) {
			t.Errorf("line %d: %s is missing in %q", line, extension, reply)
		}
	}
	expected := codes.FindString(want + " ")
	for got := range strings.SplitSeq(strings.TrimSuffix(reply, "\r\n"), "\r\n") {
		if got = strings.Replace(codes.FindString(got), "-", " ", 1); got != expected {
			t.Fatalf("line %d: reply %q, want %q", line, reply, want)
		}
	}
}

// recipients returns those of each message, with a blank between two.
func (s *started) recipients() (all []string) {
	s.t.Helper()
	to := regexp.MustCompile(`(?m)^to <(.*)>$`)
	for _, text := range s.messages() {
		var of []string
		for _, m := range to.FindAllStringSubmatch(text, -1) {
			of = append(of, m[1])
		}
		all = append(all, strings.Join(of, " "))
	}
	return all
}
