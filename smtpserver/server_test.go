package smtpserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"zsched/ctlfile"
)

// ownSource is the source of this process's mail: its user, which nobody else on the machine can be.
var ownSource = fmt.Sprintf("SOURCE=uid:%d CLIENT=127.0.0.1", os.Geteuid())

func TestMessageIsInRouterWhenItIsAcknowledged(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	caps := d.say("EHLO client.example", "250 ")
	for _, word := range []string{"SIZE 52428800", "DSN", "8BITMIME", "SMTPUTF8", "PIPELINING", "CHUNKING", "ENHANCEDSTATUSCODES", "STARTTLS", "ETRN"} {
		if !strings.Contains(caps, word+"\r\n") {
			t.Errorf("EHLO lacks %s: %q", word, caps)
		}
	}
	d.say("MAIL FROM:<a@far.example> BODY=8BITMIME RET=HDRS ENVID=QQ+3D1 SIZE=99", "250 ")
	d.say("RCPT TO:<b@ours.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;b+2Bx@ours.example", "250 ")
	d.say("RCPT TO:<\"c d\"@elsewhere.example>", "250 ")
	d.say("RCPT TO:<postmaster>", "250 ")
	d.say("DATA", "354 ")
	d.say("Subject: x\r\n\r\n..dots\r\nbody\r\n.", "250 2.0.0 OK: queued as ")
	want := `external
rcvdfrom client.example ([127.0.0.1])
bodytype 8BITMIME
with ESMTP
identinfo ` + ownSource + `
envid QQ+3D1
notaryret HDRS
from <a@far.example>
todsn NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;b+2Bx@ours.example
to <b@ours.example>
to <"c d"@elsewhere.example>
to <postmaster@ours.example>
env-end
Subject: x

.dots
body
`
	if got := s.messages(); len(got) != 1 || got[0] != want {
		t.Errorf("messages %q, want %q", got, want)
	}
	d.say("QUIT", "221 ")
	s.nothingLeft()
}

func TestNullSenderIsTheErrorChannel(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("HELO client.example", "250 ")
	d.say("MAIL FROM:<>", "250 ")
	d.say("RCPT TO:<b@ours.example>", "250 ")
	d.say("DATA", "354 ")
	d.say(".", "250 ")
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "with SMTP\nidentinfo "+ownSource+"\nchannel error\nto ") {
		t.Errorf("messages %q", got)
	}
}

func TestStrangersSendToOurDomainsOnly(t *testing.T) {
	s := start(t, nil)
	d := s.stranger()
	d.say("MAIL FROM:<a@far.example>", "250 ")
	for address, want := range map[string]string{
		"b@ours.example": "250 ", "b@OURS.Example": "250 ", "b@x.below.example": "250 ",
		"b@below.example": "550 5.7.1", "b@elsewhere.example": "550 5.7.1", "b@xours.example": "550 5.7.1",
		`"b@ours.example"@elsewhere.example`: "55", "b@ours.example@elsewhere.example": "55",
		"@ours.example:b@elsewhere.example": "550 5.7.1", "b@[127.0.0.1]": "550 5.7.1",
		"Postmaster": "250 ", "postmaster@mx.ours.example": "550 5.7.1",
	} {
		t.Run(address, func(t *testing.T) { d.t = t; d.say("RCPT TO:<"+address+">", want) })
	}
}

// RFC 5321 section 4.5.1: everybody may write to the postmaster, whatever the domains are.
func TestPostmasterIsAlwaysAccepted(t *testing.T) {
	for domains, want := range map[string]string{
		"mx.ours.example ours.example": "mx.ours.example", ".ours.example": "mx.ours.example", ".below.example other.example": "other.example",
		".below.example": "mx.ours.example",
	} {
		s := start(t, func(o *Options) { o.Domains = strings.Fields(domains) })
		d := s.stranger()
		d.say("MAIL FROM:<a@far.example>", "250 ")
		d.say("RCPT TO:<postmaster>", "250 ")
		d.say("DATA", "354 ")
		d.say(".", "250 ")
		if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "\nto <postmaster@"+want+">\n") {
			t.Errorf("%s: messages %q", domains, got)
		}
	}
}

func TestAddressesThatTheRouterWouldReadOtherwiseAreRefused(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.say("MAIL FROM:<a@far.example>", "250 ")
	for _, address := range []string{`"|rm"@ours.example`, "|rm@ours.example", "/etc/passwd@ours.example", `":include:/x"@ours.example`, "a@b@c"} {
		d.say("RCPT TO:<"+address+">", "55")
	}
	d.say("RCPT TO:<\xc3\xa4@ours.example>", "553 5.6.7")
	d.say("MAIL FROM:<c@far.example>", "503 ")
	d.say("RSET", "250 ")
	d.say("MAIL FROM:<a@far.example> SMTPUTF8", "250 ")
	d.say("RCPT TO:<\xc3\xa4@ours.example> ORCPT=utf-8;\\x{E4}@ours.example", "250 ")
	d.say("DATA", "354 ")
	d.say("\r\nx\r\n.", "250 ")
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], `todsn ORCPT=utf-8;\x{E4}@ours.example`) {
		t.Errorf("messages %q", got)
	}
}

func TestBareNewlineEndsTheSession(t *testing.T) {
	for _, end := range []string{
		"x\n.\r\n", "x\r.\r\n", "x\r\n.\n", "x\r\n.\r", "x\n.\n", "x\r.\r", "x\r\r\n.\r\n", "x\r\n\r.\r\n", ".\rX\r\n.\r\n",
	} {
		t.Run(fmt.Sprintf("%q", end), func(t *testing.T) {
			s := start(t, nil)
			d := s.dial()
			begin(d)
			d.say("DATA", "354 ")
			d.send("Subject: x\r\n\r\n" + end + "MAIL FROM:<evil@far.example>\r\nRCPT TO:<b@ours.example>\r\nDATA\r\nhidden\r\n.\r\n")
			d.expect("550 5.5.2")
			d.cutOff()
			if got := s.messages(); len(got) != 0 {
				t.Errorf("messages %q", got)
			}
			s.nothingLeft()
		})
	}
}

func TestChunksMakeOneMessage(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	begin(d)
	d.send("BDAT 14\r\nSubject: x\r\n\r\nBDAT 7\r\n.\r\n.x\r\nBDAT 5 LAST\r\nno LFNOOP\r\n")
	for range 4 {
		d.expect("250 ")
	}
	if got := s.messages(); len(got) != 1 || !strings.HasSuffix(got[0], "env-end\nSubject: x\n\n.\n.x\nno LF\n") {
		t.Errorf("messages %q", got)
	}
	begin(d)
	d.say("RSET", "250 ")
	d.send("BDAT 6 LAST\r\nRSET\r\n") // no message is begun: the bytes are not a command
	d.expect("503 ")
	d.say("NOOP", "250 ")
	for _, command := range []string{"BDAT x", "BDAT", "BDAT -1", "BDAT 1 LATE", "BDAT\t9", " BDAT 9", "bdat 9\x00", "BDAT9"} {
		d = s.dial()
		begin(d)
		d.send(command + "\r\nMAIL FROM:<a@b.example>\r\n")
		d.expect("501 5.5.4")
		d.cutOff()
	}
}

func TestBareNewlineInAChunkEndsTheSession(t *testing.T) {
	for _, chunks := range []string{
		"BDAT 4 LAST\r\na\nb\r", "BDAT 5 LAST\r\na\r\nb\r", "BDAT 1 LAST\r\n\r", "BDAT 4 LAST\r\na\rbc",
		"BDAT 2\r\na\rBDAT 1 LAST\r\nb", "BDAT 2\r\na\rBDAT 0 LAST\r\n",
	} {
		t.Run(fmt.Sprintf("%q", chunks), func(t *testing.T) {
			s := start(t, nil)
			d := s.dial()
			begin(d)
			d.send(chunks + "MAIL FROM:<evil@far.example>\r\nNOOP\r\n")
			if strings.Count(chunks, "BDAT") > 1 {
				d.expect("250 ")
			}
			d.expect("550 5.5.2")
			d.cutOff()
			if got := s.messages(); len(got) != 0 {
				t.Errorf("messages %q", got)
			}
			s.nothingLeft()
		})
	}
}

func TestChunksMayBeBrokenOff(t *testing.T) {
	s := start(t, nil)
	for range 20 {
		d := s.dial()
		begin(d)
		d.send("BDAT 3\r\nabcNOOP\r\nMAIL FROM:<c@far.example>\r\nRCPT TO:<c@ours.example>\r\nDATA\r\nRSET\r\nNOOP\r\n")
		for _, want := range []string{"250 ", "250 ", "503 ", "503 ", "503 ", "250 ", "250 "} {
			d.expect(want)
		}
		d = s.dial()
		begin(d)
		d.send("BDAT 100\r\nabc")
		d.conn.Close()
	}
	d := s.dial()
	begin(d)
	d.send("BDAT 5 LAST\r\n\r\na\r\n")
	d.expect("250 ")
	if got := s.messages(); len(got) != 1 {
		t.Errorf("messages %q", got)
	}
}

func TestCommandsBeforeTheHandshakeDoNotCountAfterIt(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.send("EHLO x\r\n")
	d.expect("250 ")
	d.send("STARTTLS\r\nMAIL FROM:<a@far.example>\r\n")
	d.expect("554 ")
	d.cutOff()

	d = s.dial()
	begin(d)
	d.startTLS()
	d.say("RCPT TO:<b@ours.example>", "503 ")
	if caps := d.say("EHLO x", "250 "); strings.Contains(caps, "STARTTLS") {
		t.Errorf("EHLO %q", caps)
	}
	d.say("RCPT TO:<b@ours.example>", "503 ")
	d.say("MAIL FROM:<a@far.example>", "250 ")
	d.say("RCPT TO:<b@ours.example>", "250 ")
	d.say("DATA", "354 ")
	d.say("\r\n.", "250 ")
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "rcvdfrom x ([127.0.0.1] TLS 1.3 TLS_") || !strings.Contains(got[0], "with ESMTPS\n") {
		t.Errorf("messages %q", got)
	}
}

func TestGarbageInTLSEndsTheSession(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("STARTTLS", "220 ")
	d.send(strings.Repeat("\x00\xffgarbage\r\n", 1000))
	if _, err := d.in.WriteTo(new(bytes.Buffer)); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	begin(s.dial())
}

func TestPasswordsAllowStrangersToSendAnywhere(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "passwords")
	empty, _ := bcrypt.GenerateFromPassword(nil, bcrypt.MinCost)
	if err := os.WriteFile(file, []byte("# users\nann:"+string(hash)+"\neve:"+string(empty)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, func(o *Options) { o.Passwords = file })
	plain := func(user, password string) string {
		return "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00"+user+"\x00"+password))
	}
	d := s.stranger()
	d.say(plain("ann", "secret"), "523 ")
	d.startTLS()
	if caps := d.say("EHLO x", "250 "); !strings.Contains(caps, "AUTH PLAIN\r\n") {
		t.Errorf("EHLO %q", caps)
	}
	d.say(plain("ann", "wrong"), "535 ")
	d.say(plain("eve", ""), "535 ")
	d.say("AUTH PLAIN AAAA", "501 ")
	d.say("AUTH PLAIN", "334 ")
	d.say(base64.StdEncoding.EncodeToString([]byte("\x00ann\x00secret")), "235 ")
	d.say("MAIL FROM:<a@far.example>", "250 ")
	d.say("RCPT TO:<b@elsewhere.example>", "250 ")
	d.say("DATA", "354 ")
	d.say("\r\n.", "250 ")
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "with ESMTPSA\nidentinfo SOURCE=login:ann CLIENT=") {
		t.Errorf("messages %q", got)
	}

	for range addressGuesses/maxFails + 1 { // all from the address of a stranger
		d = s.stranger()
		d.startTLS()
		d.say("EHLO x", "250 ")
		for i := 0; ; i++ {
			d.send(plain("nobody", "guess") + "\r\n")
			if reply := d.reply(); strings.HasPrefix(reply, "421 ") {
				break
			} else if i == maxFails || !strings.HasPrefix(reply, "535 ") {
				t.Fatalf("guess %d: %q", i, reply)
			}
		}
		d.ended()
	}
	d = s.stranger()
	d.startTLS()
	d.say("EHLO x", "250 ")
	d.say(plain("ann", "secret"), "421 ")
}

func TestETRNWritesATriggerForTheScheduler(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.say("ETRN Far.Example", "250 2.0.0 Queuing started ")
	d.say("ETRN far.example", "250 2.0.0 Queuing was started ") // once a minute
	files, _ := filepath.Glob(filepath.Join(s.office, "transport", "*-etrn"))
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	if _, ok := ctlfile.Number(filepath.Base(files[0])); !ok {
		t.Errorf("%s is not a control file's name", files[0])
	}
	if text, _ := os.ReadFile(files[0]); string(text) != "T far.example 127.0.0.1\n" {
		t.Errorf("text %q", text)
	}
	d.say("ETRN -x", "501 ")
	s.stranger().say("ETRN far.example", "459 ")
}

// Whatever other clients ask for, and after a fault, the reply to an ETRN says what has happened.
func TestETRNIsAnsweredTruly(t *testing.T) {
	s := start(t, nil)
	for i := range maxCounted {
		s.triggers.take(strconv.Itoa(i), triggerRate, time.Now())
	}
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.say("ETRN far.example", "250 2.0.0 Queuing started ")
	transport := filepath.Join(s.office, "transport")
	if err := os.Rename(transport, transport+"-away"); err != nil {
		t.Fatal(err)
	}
	d.say("ETRN near.example", "458 4.3.0")
	if err := os.Rename(transport+"-away", transport); err != nil {
		t.Fatal(err)
	}
	d.say("ETRN near.example", "250 2.0.0 Queuing started ")
}

// A client's ETRNs are limited, and take no place of another's.
func TestETRNsOfAClientAreLimited(t *testing.T) {
	s := start(t, nil)
	for range askerRate.Number {
		s.askers.take(ctlfile.UserSource(os.Geteuid()), askerRate, time.Now().Add(time.Hour))
	}
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.say("ETRN far.example", "458 4.7.1")
	ours, theirs := net.Pipe() // of another user
	done := make(chan error)
	go func() { done <- s.ServeConn(theirs, SMTP) }()
	d = &dialog{t, ours, bufio.NewReader(ours)}
	d.expect("220 ")
	d.say("EHLO x", "250 ")
	d.say("ETRN far.example", "250 2.0.0 Queuing started ")
	d.say("QUIT", "221 ")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPipeIsAClientOfThisMachine(t *testing.T) {
	s := start(t, nil)
	ours, theirs := net.Pipe()
	done := make(chan error)
	go func() { done <- s.ServeConn(theirs, SMTP) }()
	d := &dialog{t, ours, bufio.NewReader(ours)}
	d.expect("220 ")
	begin(d)
	d.say("RCPT TO:<b@elsewhere.example>", "250 ")
	d.say("QUIT", "221 ")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTLSFromTheStart(t *testing.T) {
	s := start(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go s.Serve(l, SMTPS)
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d := &dialog{t, conn, bufio.NewReader(conn)}
	d.expect("220 ")
	begin(d)
	d.say("DATA", "354 ")
	d.say("\r\nx\r\n.", "250 ")
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "with ESMTPS\n") {
		t.Errorf("messages %q", got)
	}
}

// RFC 5321 section 4.1.1.1: the first word of the reply to EHLO is the server's name. RFC 2034
// section 4: neither this reply nor that to HELO has an enhanced status code.
func TestGreetingNamesTheServer(t *testing.T) {
	d := start(t, nil).dial()
	if reply := d.say("EHLO client.example", "250 "); !strings.HasPrefix(reply, "250-mx.ours.example\r\n") {
		t.Errorf("EHLO %q", reply)
	}
	if reply := d.say("HELO client.example", "250 "); reply != "250 mx.ours.example\r\n" {
		t.Errorf("HELO %q", reply)
	}
	d.say("EHLO", "501 5.5.4")
	d.say("LHLO x", "500 5.5.1")
}

// RFC 5321 section 4.1.4: commands out of order get 503, and one that is not known 500.
func TestCommandsOutOfOrder(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	for _, command := range []string{"MAIL FROM:<>", "RCPT TO:<a@ours.example>", "DATA", "ETRN x", "AUTH PLAIN", "BDAT 0 LAST"} {
		d.say(command, "503 5.5.1")
	}
	d.say("EHLO x", "250 ")
	d.say("RCPT TO:<a@ours.example>", "503 5.5.1")
	d.say("DATA", "503 5.5.1")
	d.say("MAIL FROM:<a@far.example>", "250 ")
	d.say("DATA", "503 5.5.1")
	d.say("MAIL FROM:<a@far.example>", "503 5.5.1")
	d.say("EHLO y", "250 ") // it ends the message
	d.say("RCPT TO:<a@ours.example>", "503 5.5.1")
	for command, want := range map[string]string{
		"FROB": "500 5.5.1", "EXPN x": "502 5.5.1", "VRFY": "501 5.5.4", "VRFY x": "252 ", "RSET now": "501 5.5.4", "noop x": "250 ", "": "500 5.5.1",
	} {
		d.say(command, want)
	}
}

func TestPathsAndParameters(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("EHLO x", "250 ")
	for from, want := range map[string]string{
		"<a>": "553 5.1.7", "<a@b@c>": "553 5.1.7", "<\xc3\xa4@far.example>": "553 5.6.7", "<\xff@far.example> SMTPUTF8": "553 5.1.7",
		"<a@far.example": "501 5.1.7", "a b@far.example": "555 5.5.4", "<@far.example:>": "501 5.1.7", "": "501 5.1.7", "<a@far.example>SIZE=1": "501 5.1.7",
		"<a@far.example> FOO=1": "555 5.5.4", "<a@far.example> SIZE": "501 5.5.4", "<a@far.example> SIZE=1 SIZE=2": "501 5.5.4", "<> BODY=9BIT": "501 5.5.4",
		"<> RET=SOME": "501 5.5.4", "<> ENVID=a+0Ab": "250 ", "<> ENVID=a+2": "250 ", "<> SMTPUTF8=1": "501 5.5.4",
		"<> AUTH=<> size=7 body=7bit": "250 ", " <a@far.example> ": "250 ", "a@far.example RET=full": "250 ", `<"a"@far.example>`: "250 ",
	} {
		d.say("MAIL FROM:"+from, want)
		d.say("RSET", "250 ")
	}
	d.say("MAIL FROM:<>", "250 ")
	for to, want := range map[string]string{
		"<>": "501 5.1.3", "<b>": "553 5.1.3", "<b@>": "501 5.1.3", "<\"b@ours.example>": "501 5.1.3", "<b@ours.example> NOTIFY=NEVER,DELAY": "501 5.5.4",
		"<b@ours.example> NOTIFY=DELAY,DELAY": "501 5.5.4", "<b@ours.example> NOTIFY=": "501 5.5.4", "<b@ours.example> NOTIFY=TRACE": "501 5.5.4",
		"<b@ours.example> NOTIFY=DELAY,": "501 5.5.4", "<b@ours.example> NOTIFY=DELAY,FAILURE": "250 ", "<b@ours.example> SIZE=1": "555 5.5.4", "<b@ours.example> orcpt=X400;b": "250 ", "<@a,@b:b@ours.example> notify=never": "250 ",
	} {
		d.say("RCPT TO:"+to, want)
	}
}

// Parameters that could spoil a line, or that another server would refuse, are changed or left
// out; the mail is accepted.
func TestParametersForTheRouterAreValid(t *testing.T) {
	for value, want := range map[string]string{
		"a+0Ab": "a+0Ab", "a+2": "a+2B2", "a+4fb": "aOb", "a=b": "a+3Db",
	} {
		if got := xtext(value); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
	for value, want := range map[string]string{
		"rfc822;b+0A": "rfc822;b+0A", "RFC822;b=c": "rfc822;b+3Dc", "b": "", ";": "", "utf-8;\xc3\xa4": "", `UTF-8;\x{E4}@b`: `utf-8;\x{E4}@b`, `UTF-8;\x{E4}+b`: "",
	} {
		if got := originalRecipient(value); got != want {
			t.Errorf("%s: %s", value, got)
		}
	}
}

func TestSourceIsWhatNoSenderCanChoose(t *testing.T) {
	remote := func(address string) client {
		return clientOf(remoteConn{from: &net.TCPAddr{IP: net.ParseIP(address)}}, new(Options))
	}
	pipe, _ := net.Pipe()
	for want, s := range map[string]*session{
		"SOURCE=192.0.2.0/24 CLIENT=192.0.2.7":        {client: remote("192.0.2.7")},
		"SOURCE=2001:db8:1::/48 CLIENT=2001:db8:1::7": {client: remote("2001:db8:1::7")},
		"SOURCE=login:ann+20b CLIENT=192.0.2.7":       {client: remote("192.0.2.7"), user: "ann b"},
		"SOURCE=local":                                {client: clientOf(pipe, new(Options))},
		"SOURCE=local CLIENT=127.0.0.1":               {client: remote("127.0.0.1")}, // no process has the socket
	} {
		if got := s.source(false).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// RFC 6531 section 4.3: the Received field says that the message came with SMTPUTF8; and the
// agent is told so.
func TestSMTPUTF8IsKept(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.say("MAIL FROM:<a@far.example> SMTPUTF8", "250 ")
	d.say("RCPT TO:<b@ours.example>", "250 ")
	d.say("DATA", "354 ")
	d.say("\r\nx\r\n.", "250 ")
	if got := s.messages(); len(got) != 1 || !strings.Contains(got[0], "\nwith UTF8SMTP\nidentinfo "+ownSource+" SMTPUTF8\n") {
		t.Errorf("messages %q", got)
	}
}

// Replies to commands that came together are the same as to those that came one by one.
func TestPipelining(t *testing.T) {
	s := start(t, nil)
	d := s.dial()
	d.send("EHLO x\r\nMAIL FROM:<a@far.example>\r\nRCPT TO:<b@ours.example>\r\nRCPT TO:<nobody>\r\nDATA\r\nx\r\n.\r\nNOOP\r\nQUIT\r\n")
	for _, want := range []string{"250 ", "250 ", "250 ", "553 ", "354 ", "250 ", "250 ", "221 "} {
		d.expect(want)
	}
	d.ended()
	if got := s.messages(); len(got) != 1 || !strings.HasSuffix(got[0], "env-end\nx\n") {
		t.Errorf("messages %q", got)
	}
}
