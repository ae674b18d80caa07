package smtpserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"
)

// Hashes of the password file that cannot be used are logged when their users log in, and the
// others work.
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
	for user, want := range map[string]bool{"alice": true, "bob": false, "carol": false, "dave": true, "erin": false, "": false} {
		if _, got, err := verify(path, user, "secret", zerolog.New(&log)); got != want || err != nil {
			t.Errorf("%q: %v, %v", user, got, err)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, `"user":"bob"`) || !strings.Contains(text, `"user":"carol"`) {
		t.Errorf("the log is\n%s", text)
	}
	if strings.Contains(log.String(), "plain") || strings.Contains(log.String(), costly) {
		t.Errorf("passwords are in the log:\n%s", log.String())
	}
}
