package smtpserver

// Slow checks of the passwords for a user whom somebody guesses: who may wait for one, and
// whose turn is next.

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

const (
	// slowPause is the time between two slow checks for a user, and maxSlowWait the longest
	// time that an attempt waits for one.
	slowPause   = 5 * time.Second
	maxSlowWait = 30 * time.Second
	// maxSlowGuesses bounds the wrong passwords of an origin for whose passwords there are
	// slow checks.
	maxSlowGuesses = 3
	// maxSlowWaiting bounds the attempts that wait for a slow check for one user.
	maxSlowWaiting = 100
)

// turns are the slow checks for one user. The next one is drawn at random among the networks
// that wait, however many addresses of each wait. Every second one is kept for networks that
// have given no wrong password for this user, while there are any. guesses.mu protects it.
type turns struct {
	next    time.Time // when there may be another check
	drawing bool      // a timer calls draw then
	waiting []*attempt
	guessed map[string]bool // networks that have given wrong passwords for this user
	kept    bool            // the last check was for networks that have given none
}

// networkOf returns the network of an origin, of 24 or 48 bits, by which turns are drawn. A
// user of this machine is a network.
func networkOf(origin string) string {
	at, err := netip.ParsePrefix(origin)
	if err != nil {
		return origin
	}
	bits := 48
	if at.Addr().Is4() {
		bits = 24
	}
	network, _ := at.Addr().Prefix(bits)
	return network.String()
}

// enter lets an attempt wait and reports whether it may. When too many wait, one of the
// network with the most of them leaves. Of each origin one may wait.
func (t *turns) enter(a *attempt) bool {
	if slices.ContainsFunc(t.waiting, func(b *attempt) bool { return b.login == a.login }) {
		return false
	}
	a.turn = make(chan struct{})
	t.waiting = append(t.waiting, a)
	if len(t.waiting) <= maxSlowWaiting {
		return true
	}
	out := t.surplus()
	t.leave(out)
	close(out.turn)
	return out != a
}

// surplus returns the attempt that leaves when too many wait: one of the network with the
// most of them, and of equal networks rather one that has given wrong passwords.
func (t *turns) surplus() *attempt {
	number := make(map[string]int) // attempts, twice, and 1 if there were wrong passwords
	for _, a := range t.waiting {
		number[a.network] += 2
	}
	for network := range t.guessed {
		number[network]++
	}
	var most *attempt
	for _, i := range rand.Perm(len(t.waiting)) {
		if a := t.waiting[i]; most == nil || number[a.network] > number[most.network] {
			most = a
		}
	}
	return most
}

func (t *turns) leave(a *attempt) {
	t.waiting = slices.DeleteFunc(t.waiting, func(b *attempt) bool { return b == a })
}

// pick removes the attempt whose turn is next. At least one waits.
func (t *turns) pick() *attempt {
	of := make(map[string][]*attempt)
	var networks, unguessed []string
	for _, a := range t.waiting {
		n := a.network
		if of[n] == nil {
			networks = append(networks, n)
			if !t.guessed[n] {
				unguessed = append(unguessed, n)
			}
		}
		of[n] = append(of[n], a)
	}
	t.kept = !t.kept && len(unguessed) > 0
	if t.kept {
		networks = unguessed
	}
	attempts := of[networks[rand.IntN(len(networks))]]
	a := attempts[rand.IntN(len(attempts))]
	t.leave(a)
	return a
}

// draw gives one attempt for this user its turn, if there may be a check now. For the others,
// it is called again when there may be the next check. The caller holds guesses.mu.
func (g *guesses) draw(c *guessCount) {
	t, now := &c.turns, time.Now()
	if len(t.waiting) > 0 && !t.next.After(now) {
		a := t.pick()
		a.hasTurn = true
		close(a.turn)
		c.open++
		t.next = now.Add(slowPause)
	}
	if len(t.waiting) > 0 && !t.drawing {
		t.drawing = true
		time.AfterFunc(t.next.Sub(now), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			t.drawing = false
			g.draw(c)
		})
	}
}

// await waits for the turn of an attempt whose check is slow. If its turn does not come in
// maxSlowWait, or the server stops, the attempt ends with errUserGuesses.
func (g *guesses) await(a *attempt, stopped <-chan struct{}) error {
	if a.turn == nil {
		return nil
	}
	select {
	case <-a.turn:
	case <-time.After(maxSlowWait):
	case <-stopped:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if a.hasTurn {
		return nil
	}
	a.ofUser.turns.leave(a)
	a.ofOrigin.open--
	g.ended.Broadcast()
	return errUserGuesses
}
