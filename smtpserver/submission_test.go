package smtpserver

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// submission begins a session at a listener that requires AUTH, whose client is in a known network.
func (s *started) submission() *dialog {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	go s.Serve(l, Protocol{TLS: true, RequireAuth: true})
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	d := newDialog(s.t, conn)
	d.expect("220 ")
	d.say("EHLO x", "250 ")
	return d
}

// logins makes a file of users with the password "secret" and what else their lines have.
func logins(t *testing.T, lines ...string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for i, line := range lines {
		text += "user" + strconv.Itoa(i) + ":" + string(hash) + line + "\n"
	}
	file := filepath.Join(t.TempDir(), "passwords")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Where a listener requires AUTH, a client of a known network has to log in too.
func TestListenerRequiresAuthentication(t *testing.T) {
	s := start(t, func(o *Options) { o.Passwords = logins(t, "") })
	d := s.submission()
	d.say("MAIL FROM:<a@ours.example>", "530 5.7.0")
	d.say("ETRN far.example", "530 5.7.0")
	d.say("RCPT TO:<b@elsewhere.example>", "503 ")
	d.say(plain("user0", "secret"), "235 ")
	d.say("MAIL FROM:<a@ours.example>", "250 ")
	d.say("RCPT TO:<b@elsewhere.example>", "250 ")
	d = s.dial() // the other listener
	d.say("EHLO x", "250 ")
	d.say("MAIL FROM:<a@ours.example>", "250 ")
	d.say("RCPT TO:<b@elsewhere.example>", "250 ")
}

// Only clients who may send anywhere may ask for notices: the senders of others may be forged.
func TestStrangersMayNotAskForNotices(t *testing.T) {
	s := start(t, func(o *Options) { o.Passwords = logins(t, "") })
	check := func(d *dialog, offered bool) {
		t.Helper()
		reply := "555 5.5.4"
		if offered {
			reply = "250 "
		}
		if caps := d.say("EHLO x", "250 "); strings.Contains(caps, "250-DSN\r\n") != offered {
			t.Errorf("EHLO offers %q", caps)
		}
		for _, parameter := range []string{"RET=HDRS", "ENVID=x"} {
			d.say("MAIL FROM:<a@ours.example> "+parameter, reply)
			d.say("RSET", "250 ")
		}
		d.say("MAIL FROM:<a@ours.example> SIZE=1 BODY=8BITMIME", "250 ")
		for _, parameter := range []string{"NOTIFY=SUCCESS", "NOTIFY=NEVER", "ORCPT=rfc822;b@ours.example"} {
			d.say("RCPT TO:<b@ours.example> "+parameter, reply)
		}
		d.say("RCPT TO:<b@ours.example>", "250 ")
	}
	check(s.dial(), true)
	d := s.dialFrom("127.1.2.9")
	check(d, false)
	d.startTLS()
	check(d, false)
	d.say("RSET", "250 ")
	d.say(plain("user0", "secret"), "235 ")
	check(d, true)
	d = s.submission()
	if caps := d.say("EHLO x", "250 "); !strings.Contains(caps, "250-DSN\r\n") {
		t.Errorf("where everybody has to log in, EHLO offers %q", caps)
	}
	d.say("MAIL FROM:<a@ours.example> RET=HDRS", "530 ")
	d.say(plain("user0", "secret"), "235 ")
	check(d, true)
}

// The third field of the password file bounds the senders of a login.
func TestLoginHasItsSendersOnly(t *testing.T) {
	s := start(t, func(o *Options) {
		o.Passwords = logins(t, "", ":ann@ours.example,@below.example", ":", ":ours.example, <>")
	})
	for user, want := range []map[string]string{
		{"x@far.example": "250 ", "": "250 "},
		{
			"Ann@ours.example": "250 ", "ann@OURS.example": "250 ", "x@below.example": "250 ", "": "250 ", `"ann"@ours.example`: "250 ",
			"bob@ours.example": "553 5.7.1", "ann@x.below.example": "553 5.7.1", "ann@ours.example.far": "553 5.7.1", `"x@below.example"@far.example`: "553 ",
			"@below.example:a@far.example": "553 5.7.1",
		},
		{"ann@ours.example": "553 5.7.1", "": "250 "},
		{"ann@ours.example": "553 5.7.1", "x@xours.example": "553 5.7.1", "": "250 "},
	} {
		d := s.submission()
		d.say(plain("user"+strconv.Itoa(user), "secret"), "235 ")
		for from, reply := range want {
			d.say("MAIL FROM:<"+from+">", reply)
			d.say("RSET", "250 ")
		}
	}
}

// Who is taken out of the password file, or has another password now, sends nothing more, also in a
// session that is open. Changes of others do not matter.
func TestLoginEndsWithItsPassword(t *testing.T) {
	file := logins(t, "", "", "")
	s := start(t, func(o *Options) { o.Passwords = file })
	var sessions []*dialog
	for i := range 3 {
		d := s.submission()
		d.say(plain("user"+strconv.Itoa(i), "secret"), "235 ")
		d.say("MAIL FROM:<a@ours.example>", "250 ")
		d.say("RSET", "250 ")
		sessions = append(sessions, d)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begun := s.submission()
	begun.say(plain("user0", "secret"), "235 ")
	begun.say("MAIL FROM:<a@ours.example>", "250 ")
	begun.say("RCPT TO:<b@ours.example>", "250 ")
	lines := strings.SplitAfter(string(text), "\n")
	other := strings.TrimSuffix(lines[2], "\n") + ":ann@ours.example\n"
	// user0 is gone, user1 has another hash of the same password, and user2 has senders.
	if err := os.WriteFile(file, []byte("#"+lines[0]+"user1"+readLogin(t)+other), 0o600); err != nil {
		t.Fatal(err)
	}
	sessions[0].say("MAIL FROM:<a@ours.example>", "421 4.7.0")
	sessions[1].say("MAIL FROM:<a@ours.example>", "421 4.7.0")
	begun.say("DATA", "354 ")
	begun.say("Subject: x\r\n\r\nbody\r\n.", "421 4.7.0")
	sessions[2].say("MAIL FROM:<a@ours.example>", "553 5.7.1")
	sessions[2].say("MAIL FROM:<ann@ours.example>", "250 ")
	sessions[2].say("RSET", "250 ")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	sessions[2].say("MAIL FROM:<ann@ours.example>", "454 4.7.0")
}

// readLogin is the line of a login from the colon on.
func readLogin(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(logins(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(string(text), "user0")
}

// Logins and address blocks, those in known networks too, have rates of their own.
func TestRatesOfRecipients(t *testing.T) {
	s := start(t, func(o *Options) {
		o.Passwords = logins(t, "", "")
		o.LoginRate, o.ClientRate, o.NetworkRate = Rate{3, time.Hour}, Rate{2, time.Hour}, Rate{5, time.Hour}
	})
	recipients := func(d *dialog, accepted int) {
		t.Helper()
		d.say("MAIL FROM:<a@ours.example>", "250 ")
		for range accepted {
			d.say("RCPT TO:<b@ours.example>", "250 ")
		}
		d.say("RCPT TO:<b@ours.example>", "450 4.7.1")
		d.say("RSET", "250 ")
	}
	login := func(user string) *dialog {
		d := s.submission()
		d.say(plain(user, "secret"), "235 ")
		return d
	}
	recipients(login("user0"), 3)
	recipients(login("user0"), 0)
	recipients(login("user1"), 3)
	for address, accepted := range map[string]int{"127.1.2.9": 2, "127.1.3.9": 2} {
		d := s.dialFrom(address)
		d.say("EHLO x", "250 ")
		recipients(d, accepted)
	}
	d := s.dialFrom("127.1.2.10")
	d.say("EHLO x", "250 ")
	recipients(d, 0)
	// However many blocks there are, they make the server forget no login.
	for i := range maxCounted + 10 {
		s.blockRates.take(strconv.Itoa(i), Rate{2, time.Hour}, time.Now())
	}
	recipients(login("user0"), 0)
	d = s.dial()
	d.say("EHLO x", "250 ")
	recipients(d, 5)
}

// In no time there are more recipients than the rate allows, and the memory is bounded.
func TestRateIsABucket(t *testing.T) {
	r, now := rates{}, time.Now()
	ann, limit := "login:ann", Rate{6, time.Minute}
	taken := 0
	for range 600 {
		if r.take(ann, limit, now) {
			taken++
		}
		now = now.Add(time.Second)
	}
	if taken != 6+59 {
		t.Errorf("%d in ten minutes", taken)
	}
	for i := range maxCounted + 10 {
		r.take(strconv.Itoa(i), limit, now)
	}
	if len(r.fullAt) > maxCounted {
		t.Errorf("%d buckets", len(r.fullAt))
	}
}
