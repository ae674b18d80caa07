package smtpserver

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"
)

// passwordFile writes a password file in which ann and bob have the password "secret".
func passwordFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "passwords")
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err == nil {
		err = os.WriteFile(file, fmt.Appendf(nil, "ann:%s\nbob:%s\n", hash, hash), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func plain(user, password string) string {
	return "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00"+user+"\x00"+password))
}

// withTLS begins TLS, after which AUTH is allowed.
func (d *dialog) withTLS() *dialog {
	d.startTLS()
	d.say("EHLO x", "250 ")
	return d
}

// at is a login from the nth address.
func at(user string, n int) login {
	return login{user, addressKey(netip.AddrFrom4([4]byte{203, 0, byte(n >> 8), byte(n)}))}
}

// guess gives wrong passwords for a user until the budget of the user is spent, each from an
// address of its own.
func (g *guesses) guess(t *testing.T, user string, now time.Time) (number int) {
	t.Helper()
	for g.tooMany(at(user, number), now) == nil {
		g.wrong(at(user, number))
		number++
	}
	return number
}

// When somebody guesses the password of a user, the user can still log in from an earlier
// address, and others can from anywhere. A new address waits.
func TestGuessersDoNotKeepAUserOut(t *testing.T) {
	s := start(t, func(o *Options) { o.Passwords = passwordFile(t) })
	d := s.stranger().withTLS()
	d.say(plain("ann", "secret"), "235 ")
	if n := s.guesses.guess(t, "ann", time.Now()); n != userGuesses {
		t.Errorf("%d guesses", n)
	}
	d = s.stranger().withTLS()
	d.say(plain("ann", "secret"), "235 ")
	d = s.dialFrom("127.1.2.10")
	d.say("EHLO x", "250 ")
	d.withTLS().say(plain("ann", "secret"), "454 4.7.0")
	d.say(plain("bob", "secret"), "235 ")
}

// However many addresses a guesser has, the number of guesses for one user is bounded, and so
// is the number from one address for all users.
func TestGuessesAreBounded(t *testing.T) {
	g, now := newGuesses(), time.Now()
	tried := 0
	for range 3600 {
		tried += g.guess(t, "ann", now)
		now = now.Add(time.Second)
	}
	if tried != 6*userGuesses {
		t.Errorf("%d guesses in an hour for one user", tried)
	}
	tried = 0
	for second := range 3600 {
		if one := at(fmt.Sprint("user", second), 70000); g.tooMany(one, now) == nil {
			g.wrong(one)
			tried++
		}
		now = now.Add(time.Second)
	}
	if tried < 6*addressGuesses || tried > 7*addressGuesses {
		t.Errorf("%d guesses in an hour from one address", tried)
	}
}

// However many names and addresses there are, what is remembered of them is bounded.
func TestGuessesTakeBoundedMemory(t *testing.T) {
	g := newGuesses()
	for i := range maxCounted + 10 {
		g.wrong(at(fmt.Sprint("user", i), i))
		g.right(at("bob", i))
	}
	known := g.known["bob"]
	if len(g.byUser) != 10 || len(g.byAddress) != 10 || len(known) > maxKnown || !known[at("bob", maxCounted+9).from] {
		t.Errorf("%d users, %d addresses, %d logins", len(g.byUser), len(g.byAddress), len(known))
	}
}

// The addresses of one user make the server forget none of another's.
func TestAddressesOfAUserLeaveThoseOfOthers(t *testing.T) {
	g := newGuesses()
	g.right(at("ann", 0))
	for i := range maxCounted + 10 {
		g.right(at("bob", i))
	}
	for range userGuesses {
		g.wrong(at("ann", 1))
	}
	if refused := g.tooMany(at("ann", 0), time.Now()); refused != nil {
		t.Errorf("%v for ann at her usual address", refused)
	}
}

// A refusal takes the same time whatever its reason.
func TestRefusalOfAPasswordIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Default()
		s := &Server{stopped: make(chan struct{}), guesses: newGuesses()}
		o.Passwords = passwordFile(t)
		s.config.Store(&config{Options: o})
		for _, user := range []string{"ann", "nobody"} {
			c := &session{server: s, o: &o}
			began := time.Now()
			if err := c.authenticate("", user, "guess"); err != errPassword || time.Since(began) != guessDelay {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			began = time.Now()
			if err := c.authenticate("", "ann", "secret"); err != nil || time.Since(began) != 0 {
				t.Errorf("the right password: %v after %v", err, time.Since(began))
			}
		}
	})
}

// A login waits behind a bounded number of logins of another network. One more of that network is
// refused.
func TestLoginsOfOneNetworkAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Default()
		s := &Server{stopped: make(chan struct{}), guesses: newGuesses()}
		o.Passwords = passwordFile(t)
		s.config.Store(&config{Options: o})
		login := func(block string) <-chan error {
			answer := make(chan error, 1)
			c := &session{server: s, o: &o, client: client{block: block}}
			go func() { answer <- c.authenticate("", "ann", "secret") }()
			synctest.Wait()
			return answer
		}
		for range hashesAtOnce {
			s.guesses.begin("busy")
		}
		var waiting []<-chan error
		for range checksOfBlock {
			waiting = append(waiting, login("many"))
		}
		more := login("many")
		waiting = append(waiting, login("other"))
		time.Sleep(guessDelay)
		synctest.Wait()
		select {
		case err := <-more:
			if err != errManyLogins {
				t.Errorf("one more: %v", err)
			}
		default:
			t.Error("one more waits")
		}
		for range hashesAtOnce {
			s.guesses.end("busy")
		}
		for i, answer := range waiting {
			if err := <-answer; err != nil {
				t.Errorf("login %d: %v", i, err)
			}
		}
		if len(s.guesses.checks) > 0 {
			t.Errorf("checks %v", s.guesses.checks)
		}
	})
}

// smtpserver(8) has this expression for fail2ban, with <HOST> for the address. No user's name
// can look like another address.
func TestLogOfWrongPasswordsIsForFail2ban(t *testing.T) {
	failregex := regexp.MustCompile(`"client":"([0-9.]+)","user":".*"reason":"password"`)
	log := new(lockedText)
	s := start(t, func(o *Options) { o.Passwords, o.Log = passwordFile(t), zerolog.New(log).With().Timestamp().Logger() })
	d := s.stranger().withTLS()
	d.say(plain(`a","client":"198.51.100.9","user":"b`, "guess"), "535 5.7.8")
	d.say("QUIT", "221 ")
	found := failregex.FindAllStringSubmatch(log.String(), -1)
	if len(found) != 1 || found[0][1] != "192.1.2.9" {
		t.Errorf("%q in %s", found, log.String())
	}
}

// Address blocks take turns: one that has many checks delays another's by one of them.
func TestBlocksTakeTurnsInChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses()
		for range hashesAtOnce {
			g.begin("busy")
		}
		var order []string
		for _, block := range []string{"many", "many", "many", "other"} {
			go func() {
				g.begin(block)
				order = append(order, block)
				g.end(block)
			}()
			synctest.Wait()
		}
		g.end("busy")
		synctest.Wait()
		if got := strings.Join(order, " "); got != "many other many many" {
			t.Errorf("checked: %s", got)
		}
		g.end("busy")
		if g.going != 0 || len(g.checks)+len(g.waiting)+len(g.turns) > 0 {
			t.Errorf("left: %+v", g)
		}
	})
}
