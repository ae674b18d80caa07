package smtpserver

// Wrong passwords: how many there may be, from an address and for a user.

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// addressGuesses is how many wrong passwords an address may give in guessPeriod, and
	// userGuesses how many there may be for one user. Each comes back evenly in that time.
	addressGuesses = 20
	userGuesses    = 50
	guessPeriod    = 10 * time.Minute
	// guessDelay is how long after an attempt its refusal is sent.
	guessDelay = 2 * time.Second
	// hashesAtOnce bounds the processors that clients can keep busy.
	hashesAtOnce = 2
	// maxCounted bounds the addresses, and the users, whose wrong passwords are counted, and
	// the logins that are remembered. All are forgotten when there would be more.
	maxCounted = 10000
)

// login is a user at an address.
type login struct {
	user string
	from netip.Prefix // addressKey
}

// guesses says whether a password may be checked. When there were too many wrong ones for a
// user, passwords still may from the addresses from which the user has logged in since
// the start of the server, so that nobody else can keep the user out there.
type guesses struct {
	delay time.Duration // guessDelay
	slots chan struct{} // has an element for each check that is going on

	mu        sync.Mutex
	byAddress budget[netip.Prefix]
	byUser    budget[string]
	known     map[login]bool
}

func newGuesses() *guesses {
	return &guesses{
		delay: guessDelay, slots: make(chan struct{}, hashesAtOnce), known: make(map[login]bool),
		byAddress: budget[netip.Prefix]{most: addressGuesses, spent: make(map[netip.Prefix]spending)},
		byUser:    budget[string]{most: userGuesses, spent: make(map[string]spending)},
	}
}

// tooMany returns the refusal of a password that may not be checked now, or nil.
func (g *guesses) tooMany(at login, now time.Time) *refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.byAddress.isSpent(at.from, now):
		return errAddressGuesses
	case g.byUser.isSpent(at.user, now) && !g.known[at]:
		return errUserGuesses
	}
	return nil
}

// wrong counts a wrong password.
func (g *guesses) wrong(at login, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.byAddress.spend(at.from, now)
	g.byUser.spend(at.user, now)
}

// right remembers a login.
func (g *guesses) right(at login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) == maxCounted {
		clear(g.known)
	}
	g.known[at] = true
}

// budget is a number of wrong passwords for each key.
type budget[K comparable] struct {
	most  float64
	spent map[K]spending
}

// spending is the number of wrong passwords that had not come back at a time.
type spending struct {
	number float64
	at     time.Time
}

func (b *budget[K]) now(key K, now time.Time) float64 {
	s := b.spent[key]
	return max(0, s.number-b.most*now.Sub(s.at).Seconds()/guessPeriod.Seconds())
}

func (b *budget[K]) isSpent(key K, now time.Time) bool { return b.now(key, now) > b.most-1 }

// spend counts a wrong password. Each takes so long that a guesser gains little when all counts
// are forgotten.
func (b *budget[K]) spend(key K, now time.Time) {
	number := b.now(key, now) + 1
	if len(b.spent) == maxCounted {
		clear(b.spent)
	}
	b.spent[key] = spending{number, now}
}
