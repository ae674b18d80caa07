package smtpserver

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// guess gives n wrong passwords for a user, one origin after the other, twenty of each.
func (g *guesses) guess(t *testing.T, user, origins string, n int) {
	t.Helper()
	for i := range n {
		a, err := g.begin(login{user, fmt.Sprint(origins, i/maxAddressGuesses)})
		if err != nil {
			t.Fatalf("guess %d: %v", i, err)
		}
		g.end(a, true)
	}
}

// try gives a password whose check takes a tenth of a second.
func (g *guesses) try(l login, wrong bool) error {
	a, err := g.begin(l)
	if err == nil {
		err = g.await(a, nil)
	}
	if err == nil {
		time.Sleep(100 * time.Millisecond)
		g.end(a, wrong)
	}
	return err
}

func none(login) bool { return false }

// When somebody guesses the password of a user, the user can still log in from a new
// address, and at once from one that is known or for another user.
func TestGuessersDoNotKeepAUserOut(t *testing.T) {
	s := start(t, func(o *Options) { o.Passwords = passwordFile(t) })
	s.guesses.guess(t, "ann", "guesser", maxUserGuesses)
	d := s.stranger().withTLS()
	d.say(plain("ann", "secret"), "235 ") // in the first turn for a slow check
	s.guesses.guess(t, "ann", "another", 1)
	if a, err := s.guesses.begin(login{"ann", "192.0.2.9/32"}); err != nil || a.turn != nil {
		t.Errorf("from a known address: %+v, %v", a, err)
	}
	if a, err := s.guesses.begin(login{"bob", "192.0.2.10/32"}); err != nil || a.turn != nil {
		t.Errorf("for another user: %+v, %v", a, err)
	}
}

// However many addresses and sessions a guesser has, the number of guesses for one user is
// the one that smtpserver(8) gives.
func TestGuessesForOneUserAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(none)
		end := time.Now().Add(time.Hour / 3)
		var guessers sync.WaitGroup
		var mu sync.Mutex
		tried, refused := 0, 0
		for i := range 200 { // each with other addresses
			guessers.Go(func() {
				for address := 0; time.Now().Before(end); {
					err := g.try(login{"ann", fmt.Sprintf("%d.%d", i, address)}, true)
					if err != nil {
						address = (address + 1) % 20
						time.Sleep(3 * time.Second)
					}
					mu.Lock()
					if err == nil {
						tried++
					} else {
						refused++
					}
					mu.Unlock()
				}
			})
		}
		guessers.Wait()
		if tried < 300 || tried > 1100/3 || refused == 0 {
			t.Errorf("%d guesses, %d refused", tried, refused)
		}
	})
}

// Guessers who never stop and use many addresses, all of networks that have guessed before,
// leave every second check to a user at a new address, at each try.
func TestGuessersLeaveTurnsToTheUser(t *testing.T) {
	for name, origin := range map[string]string{
		"of a few networks":                 "203.0.%[2]d.%[1]d/32",
		"each in a network of its own":      "203.0.%[1]d.7/32",
		"with a new IPv6 address each time": "2001:db8:1:%[3]x::/64",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuesses(none)
				g.guess(t, "ann", "earlier", maxUserGuesses)
				g.byUser["ann"].turns.guessed = make(map[string]bool)
				end := time.Now().Add(guessPeriod - time.Minute)
				var guessers sync.WaitGroup
				for i := range 40 {
					g.byUser["ann"].turns.guessed[networkOf(fmt.Sprintf(origin, i, i%3, i))] = true
				}
				for i := range 40 {
					guessers.Go(func() {
						for n := 0; time.Now().Before(end); n++ {
							if g.try(login{"ann", fmt.Sprintf(origin, i, i%3, 40*n+i)}, true) != nil {
								time.Sleep(300 * time.Millisecond)
							}
						}
					})
				}
				for i := range 16 {
					time.Sleep(30 * time.Second)
					began := time.Now()
					err := g.try(login{"ann", fmt.Sprintf("192.0.%d.1/32", i)}, false)
					if wait := time.Since(began); err != nil || wait > 3*slowPause {
						t.Errorf("try %d of the user: %v after %v", i+1, err, wait)
					}
				}
				guessers.Wait()
			})
		})
	}
}

// Turns are drawn by network, so that a network has no more of them for more addresses.
func TestTurnsAreDrawnByNetwork(t *testing.T) {
	turns := turns{guessed: map[string]bool{"203.0.113.0/24": true, "2001:db8:1::/48": true}}
	user, first := login{"ann", "2001:db8:1:2::/64"}, 0
	for range 1000 {
		turns.waiting = []*attempt{waitingAt(user.origin)}
		for i := range 40 {
			turns.waiting = append(turns.waiting, waitingAt(fmt.Sprintf("203.0.113.%d/32", i)))
		}
		if turns.pick().login == user {
			first++
		}
	}
	if first < 400 || first > 600 { // six standard deviations
		t.Errorf("one of 2 networks is the first %d of 1000 times", first)
	}
}

// When too many wait, it is one of the network with the most that does not.
func TestThoseWhoWaitAreBounded(t *testing.T) {
	var turns turns
	for i := range 2 * maxSlowWaiting {
		turns.enter(waitingAt(fmt.Sprintf("203.0.113.%d/32", i)))
	}
	user := waitingAt("192.0.2.1/32")
	again := waitingAt("192.0.2.1/32")
	if !turns.enter(user) || turns.enter(again) || len(turns.waiting) != maxSlowWaiting || !slices.Contains(turns.waiting, user) {
		t.Errorf("%d wait", len(turns.waiting))
	}
	turns = turnsOfNetworks(maxSlowWaiting)
	turns.guessed = map[string]bool{"203.0.7.0/24": true}
	if !turns.enter(user) || slices.ContainsFunc(turns.waiting, func(a *attempt) bool { return a.origin == "203.0.7.1/32" }) {
		t.Errorf("a network that has not guessed gave way to one that has")
	}
}

func waitingAt(origin string) *attempt {
	return &attempt{login: login{"ann", origin}, network: networkOf(origin)}
}

func turnsOfNetworks(n int) turns {
	var t turns
	for i := range n {
		t.enter(waitingAt(fmt.Sprintf("203.0.%d.1/32", i)))
	}
	return t
}

// Those who wait are told when the server stops, and an attempt without a turn ends.
func TestNobodyWaitsForATurnForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(none)
		g.guess(t, "ann", "earlier", maxUserGuesses)
		stopped := make(chan struct{})
		var tries sync.WaitGroup
		for i := range 20 {
			tries.Go(func() {
				began := time.Now()
				a, err := g.begin(login{"ann", fmt.Sprintf("203.0.%d.1/32", i)})
				if err == nil {
					err = g.await(a, stopped)
				}
				if wait := time.Since(began); wait > maxSlowWait || err == nil && wait%slowPause != 0 {
					t.Errorf("%v after %v", err, wait)
				}
				if err == nil {
					g.end(a, false)
				}
			})
		}
		tries.Wait()
		if c := g.byUser["ann"]; c.unended() != 0 || g.byOrigin["203.0.1.1/32"].open != 0 {
			t.Errorf("%d attempts have not ended", c.unended())
		}
		close(stopped)
	})
}

// An address with many users may have more sessions that check passwords than it may give
// wrong passwords: they wait for each other.
func TestManyRightPasswordsFromOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses(none)
		var users sync.WaitGroup
		for i := range 5 * maxAddressGuesses {
			users.Go(func() {
				a, err := g.begin(login{fmt.Sprint("user", i), "office"})
				if err != nil {
					t.Errorf("user %d: %v", i, err)
					return
				}
				time.Sleep(time.Second)
				g.end(a, false)
			})
		}
		users.Wait()
	})
}

// A user of this machine who guesses passwords keeps no other user of it out.
func TestLocalGuesserKeepsNobodyElseOut(t *testing.T) {
	s := start(t, func(o *Options) { o.Passwords = passwordFile(t) })
	for range maxAddressGuesses/maxGuesses + 1 { // this process
		d := s.dial()
		d.say("EHLO x", "250 ")
		d.withTLS()
		for strings.HasPrefix(d.say(plain("bob", "guess"), ""), "535 ") {
		}
	}
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.withTLS().say(plain("ann", "secret"), "421 ")
	// The same client is another user for the server now.
	s.guesses.byOrigin["uid of another user"] = s.guesses.byOrigin[fmt.Sprint("uid ", os.Geteuid())]
	delete(s.guesses.byOrigin, fmt.Sprint("uid ", os.Geteuid()))
	d = s.dial()
	d.say("EHLO x", "250 ")
	d.withTLS().say(plain("ann", "secret"), "235 ")
}

// A local client that closes its connection at once is still counted and logged as the user
// whose process it was.
func TestLocalGuesserIsKnownAfterItHasGone(t *testing.T) {
	log := new(lockedText)
	s := start(t, func(o *Options) { o.Passwords, o.Log = passwordFile(t), zerolog.New(log) })
	uid := fmt.Sprint(os.Geteuid())
	d := s.dial()
	d.say("EHLO x", "250 ")
	d.withTLS().say(plain("ann", "guess"), "535 ")
	if !strings.Contains(log.String(), `"uid":`+uid) {
		t.Errorf("log %s", log.String())
	}
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	d.conn.Close()
	s.stop()
	for _, c := range conns {
		if got := c.origin(); got != "uid "+uid {
			t.Errorf("origin %q", got)
		}
	}
	if len(conns) != 1 {
		t.Errorf("%d sessions", len(conns))
	}
}

// The highest count is not the one that is forgotten when there are too many.
func TestManyNamesDoNotEndTheCountOfOne(t *testing.T) {
	g := newGuesses(none)
	g.guess(t, "ann", "a", maxUserGuesses)
	for i := range maxCounted + 10 {
		g.guess(t, fmt.Sprint("user", i), fmt.Sprint("b", i), 1)
	}
	a, err := g.begin(login{"ann", "c"})
	if err != nil || a.turn == nil || len(g.byUser) > maxCounted || len(g.byOrigin) > maxCounted {
		t.Errorf("%+v, %v; %d users, %d origins", a, err, len(g.byUser), len(g.byOrigin))
	}
}

// What users have logged in from outlasts a restart, in a file that only the server reads.
func TestLoginsOutlastARestart(t *testing.T) {
	file := passwordFile(t)
	s := start(t, func(o *Options) { o.Passwords = file })
	d := s.stranger().withTLS()
	d.say(plain("ann", "secret"), "235 ")
	s.stop()
	path := filepath.Join(s.office, loginsName)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatalf("the file: %v, %v", info, err)
	}
	next, err := New(s.config.o)
	if err != nil {
		t.Fatal(err)
	}
	next.guesses.guess(t, "ann", "guesser", maxUserGuesses)
	for origin, slow := range map[string]bool{"192.0.2.9/32": false, "192.0.2.10/32": true} {
		if a, err := next.guesses.begin(login{"ann", origin}); err != nil || (a.turn != nil) != slow {
			t.Errorf("%s: %+v, %v", origin, a, err)
		}
	}
	(&started{Server: next}).stop()
}

// A damaged file is forgotten with one warning, and written anew.
func TestDamagedLoginsAreForgotten(t *testing.T) {
	now := time.Unix(1795400000, 0)
	good := loginsHeader + "1795400000\t192.0.2.1/32\tann\n"
	for _, text := range []string{"", "x", loginsHeader[:10], good + "x", good + "x\ty\tz\n", good + "1\t\tann\n", good + "1\tx\n",
		good + strings.Repeat("1\tx\tann\n", maxLogins)} {
		office := t.TempDir()
		var log strings.Builder
		l := newLogins(office, zerolog.New(&log))
		if err := os.WriteFile(l.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l.load()
		l.load()
		if len(l.last) != 0 || strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "damaged") {
			t.Errorf("%.60q: %d logins, log %s", text, len(l.last), log.String())
		}
		l.add(login{"ann", "uid 7"}, now)
		l.save()
		if last, err := readLogins(l.path); err != nil || !last[login{"ann", "uid 7"}].Equal(now) {
			t.Errorf("%v, %v", last, err)
		}
	}
}

// The file does not grow without bound, and no user displaces the logins of others.
func TestLoginsAreBounded(t *testing.T) {
	l := newLogins(t.TempDir(), zerolog.Nop())
	now := time.Unix(1795400000, 0)
	l.add(login{strings.Repeat("x", maxLoginName+1), "uid 1"}, now)
	l.add(login{"bob", "uid 1"}, now)
	for i := range 2 * maxUserLogins {
		l.add(login{"ann", fmt.Sprint("uid ", i)}, now.Add(time.Duration(i)*time.Second))
	}
	if !l.has(login{"bob", "uid 1"}) || l.has(login{"ann", "uid 99"}) || !l.has(login{"ann", "uid 100"}) || len(l.last) != maxUserLogins+1 {
		t.Errorf("%d logins", len(l.last))
	}
	for i := range maxLogins - len(l.last) {
		l.last[login{fmt.Sprint("user ", i), "uid 1"}] = now.Add(time.Hour)
	}
	l.add(login{"eve", "uid 1"}, now.Add(time.Hour))
	if len(l.last) != maxLogins || l.has(login{"bob", "uid 1"}) {
		t.Errorf("%d logins", len(l.last))
	}
	l.save()
	if last, err := readLogins(l.path); err != nil || len(last) != maxLogins {
		t.Errorf("%d logins are read, %v", len(last), err)
	}
}
