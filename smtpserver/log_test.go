package smtpserver

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// logTo makes a server write its log to a text.
func logTo(log *lockedText) func(*Options) {
	return func(o *Options) { o.Log = zerolog.New(log) }
}

// lines ends the server and returns the lines of a kind in its log, without the members that differ
// from run to run.
func (s *started) lines(log *lockedText, message string) (lines []map[string]any) {
	s.t.Helper()
	s.l.Close()
	s.stop()
	for text := range strings.Lines(log.String()) {
		line := make(map[string]any)
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			s.t.Fatal(err)
		}
		if line["message"] == message {
			for _, name := range []string{"level", "message", "id", "seconds"} {
				delete(line, name)
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// want compares lines with what they are as JSON.
func wantLogged(t *testing.T, got []map[string]any, want ...string) {
	t.Helper()
	var all []map[string]any
	for _, text := range want {
		line := make(map[string]any)
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(text, err)
		}
		all = append(all, line)
	}
	if !reflect.DeepEqual(got, all) {
		t.Errorf("the log has\n%v, want\n%v", got, all)
	}
}

// Each refusal, accepted message and session is one line, and a field has one name.
func TestLogHasALineForEachDecision(t *testing.T) {
	log := new(lockedText)
	s := start(t, logTo(log))
	d := s.stranger()
	d.say("MAIL FROM:<a@far.example> SIZE=9999999999", "552 ")
	d.say("MAIL FROM:<a@far.example>", "250 ")
	d.say("RCPT TO:<x@elsewhere.example>", "550 ")
	for i := range 22 {
		d.say(fmt.Sprintf("RCPT TO:<b%d@ours.example>", i), "250 ")
	}
	d.say("DATA", "354 ")
	d.say("\r\nx\r\n.", "250 ")
	d.say("MAIL FROM:<>", "250 ")
	d.say("RCPT TO:<b@ours.example>", "250 ")
	d.say("DATA", "354 ")
	d.say("Subject: \x00\r\n\r\nx\r\n.", "554 ")
	d.say("FROB x", "500 ")
	d.say("QUIT", "221 ")
	wantLogged(t, s.lines(log, "refused"),
		`{"client":"192.1.2.9","from":"a@far.example","code":552,"status":"5.3.4","reason":"size","text":"Message too large"}`,
		`{"client":"192.1.2.9","from":"a@far.example","to":["x@elsewhere.example"],"code":550,"status":"5.7.1","reason":"relay","text":"Relaying is not allowed"}`,
		`{"client":"192.1.2.9","from":"<>","to":["b@ours.example"],"code":554,"status":"5.6.0","reason":"header","text":"The header is too long, or has too many fields or a NUL","error":"the header cannot be delivered: it has a NUL at byte 9"}`,
		`{"client":"192.1.2.9","code":500,"status":"5.5.1","reason":"syntax","text":"Unknown command"}`)
	accepted := s.lines(log, "accepted")
	if len(accepted) != 1 || len(accepted[0]["to"].([]any)) != maxLoggedRecipients || accepted[0]["recipients"] != 22.0 || accepted[0]["bytes"] != 5.0 {
		t.Errorf("accepted: %v", accepted)
	}
	sessions := s.lines(log, "session")
	if len(sessions) != 1 || sessions[0]["bytes"].(float64) < 500 {
		t.Fatalf("sessions: %v", sessions)
	}
	delete(sessions[0], "bytes")
	wantLogged(t, sessions,
		`{"client":"192.1.2.9","helo":"far.example","reason":"quit","messages":1,"refusals":4,"refusals_unlogged":0,"sessions_unlogged":0}`)
}

// The line of a session says who has logged in, the version of TLS, and why it has ended.
func TestLogSaysWhyASessionHasEnded(t *testing.T) {
	log := new(lockedText)
	s := start(t, func(o *Options) { o.Passwords, o.Log = passwordFile(t), zerolog.New(log) })
	d := s.stranger()
	d.startTLS()
	d.say("EHLO x", "250 ")
	d.say(plain("ann", "secret"), "235 ")
	d.send("BDAT x\r\n")
	d.expect("501 ")
	d.cutOff()
	d = s.stranger()
	begin(d)
	d.say("DATA", "354 ")
	d.send("x\r\n")
	d.conn.Close()
	d = s.stranger()
	d.say("STARTTLS", "220 ")
	d.send("no handshake\r\n")
	for d.reply() != "" { // an alert of TLS
	}
	var got []string
	for _, line := range s.lines(log, "session") {
		got = append(got, fmt.Sprint(line["reason"], " ", line["tls"], " ", line["user"], " ", line["from"]))
	}
	slices.Sort(got)
	if want := []string{"closed <nil> <nil> a@far.example", "syntax TLS 1.3 ann <nil>", "tls <nil> <nil> <nil>"}; !slices.Equal(got, want) {
		t.Errorf("sessions %q, want %q", got, want)
	}
}

// The manual lists all reasons.
func TestManualListsTheReasonsOfRefusals(t *testing.T) {
	source, err := os.ReadFile("refusal.go")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../man/smtpserver.8")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`reason: "(\w+)"`).FindAllSubmatch(source, -1) {
		if !regexp.MustCompile(`(?m)^\.BR? ` + string(found[1]) + `( ,)?$`).Match(manual) {
			t.Errorf("%s is not in the manual", found[1])
		}
	}
}

// A client cannot fill the disk with lines of the log.
func TestFloodMakesFewLines(t *testing.T) {
	log := new(lockedText)
	s := start(t, func(o *Options) {
		logTo(log)(o)
		o.MaxFromAddress, o.MaxErrors = 1, 1000
	})
	d := s.stranger()
	for range 300 {
		d.say("FROB "+strings.Repeat("x", 3000), "500 ")
	}
	for range 300 { // there is a session of this address
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, 2, 9)}}).Dial("tcp", s.l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		one := &dialog{t: t, conn: conn}
		one.readAll()
		conn.Close()
	}
	d.say("QUIT", "221 ")
	refused := map[any]int{}
	for _, line := range s.lines(log, "refused") {
		refused[line["reason"]]++
	}
	if refused["syntax"] != maxRefusalLines || refused["sessions"] != 1 {
		t.Errorf("refused: %v", refused)
	}
	if got := s.lines(log, "session"); len(got) != 1 || got[0]["refusals_unlogged"] != 280.0 {
		t.Errorf("sessions: %v", got)
	}
	if n := len(log.String()); n > 10000 {
		t.Errorf("%d bytes of log", n)
	}
}

// The sessions of one address block beyond a number in a minute are counted.
func TestManySessionsMakeFewLines(t *testing.T) {
	log := new(lockedText)
	s := start(t, func(o *Options) {
		logTo(log)(o)
		o.Networks = nil
	})
	for range maxSessionLines + 5 {
		ours, theirs := net.Pipe()
		go ours.Close()
		_ = s.ServeConn(remoteConn{theirs, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1025}}, SMTP)
	}
	d := s.stranger() // of another block
	d.say("QUIT", "221 ")
	if got := len(s.lines(log, "session")); got != maxSessionLines+1 {
		t.Errorf("%d lines", got)
	}
}
