package smtpserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"
)

// Lines of the password file that cannot be used are logged, and the others work.
func TestBadLinesOfThePasswordFile(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.DefaultCost)
	if err != nil {
		t.Fatal(err)
	}
	good := string(hash)
	costly := strings.Replace(good, "$10$", "$31$", 1) // a check would take hours
	path := filepath.Join(t.TempDir(), "passwd")
	text := "# users\n\nalice:" + good + "\nno colon\nbob:plain\n:" + good + "\ncarol:" + costly + "\ndave:" + good + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	p := newPasswords(path, zerolog.New(&log))
	for user, want := range map[string]bool{"alice": true, "bob": false, "carol": false, "dave": true, "": false} {
		if got, err := p.verify(user, "secret"); got != want || err != nil {
			t.Errorf("%q: %v, %v", user, got, err)
		}
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, want := range []string{":4\"", ":5\"", ":6\"", ":7\""} {
		if len(lines) != 4 || !strings.Contains(lines[i], "passwd"+want) {
			t.Fatalf("the log is\n%s", log.String())
		}
	}
	if strings.Contains(log.String(), "plain") || strings.Contains(log.String(), costly) {
		t.Errorf("passwords are in the log:\n%s", log.String())
	}
}
