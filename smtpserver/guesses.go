package smtpserver

// Wrong passwords: how many a client may give, and how slowly passwords for a user are
// checked when somebody guesses them.

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
)

const (
	// maxAddressGuesses bounds the wrong passwords of an origin within guessPeriod.
	maxAddressGuesses = 20
	// maxUserGuesses is how many wrong passwords for one user all origins together may give
	// within guessPeriod. After that, passwords from new origins are checked slowly.
	maxUserGuesses = 50
	guessPeriod    = 10 * time.Minute
	// maxCounted bounds the origins, and the users, whose wrong passwords are counted.
	maxCounted = 10000
)

var (
	errAddressGuesses = &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "Too many wrong passwords"}
	errUserGuesses    = &smtp.SMTPError{Code: 454, EnhancedCode: smtp.EnhancedCode{4, 7, 0}, Message: "Too many wrong passwords for this user"}
)

// login is a user at an origin.
type login struct{ user, origin string }

// origin returns by what a client's wrong passwords are counted: its address as addressKey
// has it, or "uid 1000" for a process of this machine, whose users share its addresses.
func (c *connection) origin() string {
	if !c.isLocal() {
		return addressKey(c.client.addr).String()
	}
	if c.uid < 0 {
		return "this machine"
	}
	return "uid " + strconv.Itoa(c.uid)
}

// guesses counts wrong passwords by origin and by user.
type guesses struct {
	knows func(login) bool // whether the user has logged in from there before

	mu       sync.Mutex
	ended    sync.Cond // an attempt has ended
	byOrigin map[string]*guessCount
	byUser   map[string]*guessCount
}

// guessCount is the number of wrong passwords of an origin, or for a user.
type guessCount struct {
	wrong int
	since time.Time // wrong is counted from then on, for guessPeriod
	// open counts the attempts that have not ended. Those that wait for a slow check count
	// for their origin, but not for their user, who has them in turns.
	open  int
	turns turns
}

// unended counts all attempts that have not ended.
func (c *guessCount) unended() int { return c.open + len(c.turns.waiting) }

// attempt is one password that is checked.
type attempt struct {
	login
	network  string // networkOf the origin
	ofOrigin *guessCount
	ofUser   *guessCount
	turn     chan struct{} // for a slow check: closed when the attempt waits no longer
	hasTurn  bool          // of a slow check: it may be made now
}

func newGuesses(knows func(login) bool) *guesses {
	g := &guesses{knows: knows, byOrigin: make(map[string]*guessCount), byUser: make(map[string]*guessCount)}
	g.ended.L = &g.mu
	return g
}

// begin begins an attempt. The caller then calls await, checks the password if that returns
// no error, and calls end. begin returns errAddressGuesses after too many wrong passwords of
// the origin, and errUserGuesses if the attempt may not wait for a slow check. An attempt that
// has not ended counts as a wrong one, so that parallel sessions get no more guesses; attempts
// that would be too many for their origin because of that wait until others have ended.
func (g *guesses) begin(l login) (*attempt, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := &attempt{
		login: l, network: networkOf(l.origin),
		ofOrigin: obtainCount(g.byOrigin, l.origin), ofUser: obtainCount(g.byUser, l.user),
	}
	for a.ofOrigin.wrong < maxAddressGuesses && a.ofOrigin.wrong+a.ofOrigin.open >= maxAddressGuesses {
		g.ended.Wait()
	}
	if a.ofOrigin.wrong >= maxAddressGuesses {
		return nil, errAddressGuesses
	}
	if a.ofUser.wrong+a.ofUser.open < maxUserGuesses || g.knows(l) {
		a.ofUser.open++
	} else {
		if a.ofOrigin.wrong >= maxSlowGuesses || !a.ofUser.turns.enter(a) {
			return nil, errUserGuesses
		}
		g.draw(a.ofUser)
	}
	a.ofOrigin.open++
	return a, nil
}

// end ends an attempt. wrong says that the password was wrong.
func (g *guesses) end(a *attempt, wrong bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a.ofOrigin.open--
	a.ofUser.open--
	if wrong {
		a.ofOrigin.wrong++
		a.ofUser.wrong++
		if a.ofUser.turns.guessed == nil {
			a.ofUser.turns.guessed = make(map[string]bool)
		}
		a.ofUser.turns.guessed[a.network] = true
	}
	g.ended.Broadcast()
}

// obtainCount finds or makes a count, and begins it anew after guessPeriod. The caller
// holds guesses.mu.
func obtainCount(of map[string]*guessCount, key string) *guessCount {
	c, now := of[key], time.Now()
	switch {
	case c == nil:
		if len(of) >= maxCounted {
			evictCounts(of, now)
		}
		c = &guessCount{since: now}
		of[key] = c
	case now.Sub(c.since) >= guessPeriod:
		c.wrong, c.since, c.turns.guessed = 0, now, nil
	}
	return c
}

// evictCounts removes the counts whose period is over. If more than half of maxCounted are
// left, it removes the lowest ones: a guesser who wants a higher count to be forgotten needs
// as many guesses for thousands of others.
func evictCounts(of map[string]*guessCount, now time.Time) {
	maps.DeleteFunc(of, func(_ string, c *guessCount) bool { return c.unended() == 0 && now.Sub(c.since) >= guessPeriod })
	for lowest := 0; len(of) > maxCounted/2; lowest++ {
		maps.DeleteFunc(of, func(_ string, c *guessCount) bool { return c.wrong+c.unended() <= lowest })
	}
}
