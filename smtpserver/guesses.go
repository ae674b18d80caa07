package smtpserver

// Wrong passwords: how many there may be, from an address and for a user.

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// addressGuesses is how many wrong passwords an address may give in a guessPeriod, and
	// userGuesses how many there may be for one user.
	addressGuesses = 20
	userGuesses    = 50
	guessPeriod    = 10 * time.Minute
	// guessDelay is how long after an attempt its refusal is sent.
	guessDelay = 2 * time.Second
	// hashesAtOnce bounds the processors that clients can keep busy.
	hashesAtOnce = 2
	// checksOfBlock bounds the checks for an address block that wait or go on, so that others do
	// not wait behind more of them.
	checksOfBlock = 20
	// maxCounted bounds the addresses, and the users, whose wrong passwords are counted. All are
	// forgotten when there would be more.
	maxCounted = 10000
	// maxKnown bounds the addresses of one user that are remembered, in the same way.
	maxKnown = 100
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

	mu        sync.Mutex
	began     time.Time // the period, in which wrong passwords are counted
	byAddress map[netip.Prefix]int
	byUser    map[string]int
	known     map[string]map[netip.Prefix]bool // from where each user has logged in
	checks    map[string]int                   // that wait or go on, by address block
	going     int                              // checks that go on
	waiting   map[string][]chan struct{}       // those of each block that wait, each for its channel to be closed
	turns     []string                         // the blocks in waiting, in the order of their turns
}

func newGuesses() *guesses {
	return &guesses{
		delay: guessDelay, waiting: make(map[string][]chan struct{}),
		byAddress: make(map[netip.Prefix]int), byUser: make(map[string]int), known: make(map[string]map[netip.Prefix]bool),
		checks: make(map[string]int),
	}
}

// begin waits until a password from an address block may be checked; the check ends with end. Blocks
// take turns. It returns false at once if there are too many checks for the block.
func (g *guesses) begin(block string) bool {
	g.mu.Lock()
	if g.checks[block] == checksOfBlock {
		g.mu.Unlock()
		return false
	}
	g.checks[block]++
	if g.going < hashesAtOnce {
		g.going++
		g.mu.Unlock()
		return true
	}
	turn := make(chan struct{}) // parallel sessions get no more guesses
	if len(g.waiting[block]) == 0 {
		g.turns = append(g.turns, block)
	}
	g.waiting[block] = append(g.waiting[block], turn)
	g.mu.Unlock()
	<-turn
	return true
}

func (g *guesses) end(block string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.checks[block]--; g.checks[block] == 0 {
		delete(g.checks, block)
	}
	if len(g.turns) == 0 {
		g.going--
		return
	}
	next := g.turns[0]
	g.turns = g.turns[1:]
	close(g.waiting[next][0])
	if g.waiting[next] = g.waiting[next][1:]; len(g.waiting[next]) > 0 {
		g.turns = append(g.turns, next)
	} else {
		delete(g.waiting, next)
	}
}

// tooMany returns the refusal of a password that may not be checked now, or nil.
func (g *guesses) tooMany(at login, now time.Time) *refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.began) >= guessPeriod {
		g.began = now
		clear(g.byAddress)
		clear(g.byUser)
	}
	switch {
	case g.byAddress[at.from] >= addressGuesses:
		return errAddressGuesses
	case g.byUser[at.user] >= userGuesses && !g.known[at.user][at.from]:
		return errUserGuesses
	}
	return nil
}

// wrong counts a wrong password. Each takes so long that a guesser gains little when all counts
// are forgotten.
func (g *guesses) wrong(at login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bounded(g.byAddress, at.from)[at.from]++
	bounded(g.byUser, at.user)[at.user]++
}

// right remembers a login.
func (g *guesses) right(at login) {
	g.mu.Lock()
	defer g.mu.Unlock()
	from := g.known[at.user]
	if from == nil || len(from) == maxKnown && !from[at.from] {
		from = make(map[netip.Prefix]bool)
		g.known[at.user] = from
	}
	from[at.from] = true
}

// bounded returns a map that has the key, or room for it.
func bounded[K comparable, V any](m map[K]V, key K) map[K]V {
	if _, has := m[key]; !has && len(m) == maxCounted {
		clear(m)
	}
	return m
}
