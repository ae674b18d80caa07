package smtpserver

// Passwords: AUTH PLAIN against a file of bcrypt hashes.

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"golang.org/x/crypto/bcrypt"
)

const (
	// maxGuesses is the number of wrong passwords in a session.
	maxGuesses = 3
	// maxAddressGuesses is the number of wrong passwords from an address within
	// guessPeriod.
	maxAddressGuesses = 20
	guessPeriod       = 10 * time.Minute
	// maxGuessers bounds the addresses that are remembered.
	maxGuessers = 10000
	// hashesAtOnce bounds the processors that clients can keep busy.
	hashesAtOnce = 2
	// maxPasswordFile is its size in bytes.
	maxPasswordFile = 16 << 20
)

// passwords is the file of users and their bcrypt hashes, "user:hash" one a
// line. It is read again when it has changed.
type passwords struct {
	path  string // "" for none
	slots chan struct{}

	mu       sync.Mutex
	read     os.FileInfo
	hashes   map[string][]byte
	dummy    []byte // a hash that costs as much as that of a user
	guessers map[netip.Addr]*guesses
}

// guesses are the wrong passwords of an address.
type guesses struct {
	n     int
	since time.Time
}

func newPasswords(path string) *passwords {
	return &passwords{path: path, slots: make(chan struct{}, hashesAtOnce), guessers: make(map[netip.Addr]*guesses)}
}

// AuthMechanisms are those that EHLO lists: none without TLS.
func (s *session) AuthMechanisms() []string {
	if s.server.passwords.path == "" || s.conn.tls() == nil {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth begins an AUTH command.
func (s *session) Auth(mechanism string) (sasl.Server, error) {
	switch {
	case s.server.passwords.path == "":
		return nil, smtp.ErrAuthUnsupported
	case s.conn.tls() == nil:
		return nil, refusal(523, smtp.EnhancedCode{5, 7, 10}, "TLS is required")
	case mechanism != sasl.Plain:
		return nil, smtp.ErrAuthUnknownMechanism
	case s.mail != nil:
		return nil, refusal(503, smtp.EnhancedCode{5, 5, 1}, "AUTH is not for the middle of a message")
	}
	return sasl.NewPlainServer(s.authenticate), nil
}

func (s *session) authenticate(identity, user, password string) error {
	p, addr := s.server.passwords, s.conn.client.addr
	if s.fails >= maxGuesses || p.exhausted(addr) {
		s.conn.ended.Store(true)
		return refusal(421, smtp.EnhancedCode{4, 7, 0}, "Too many wrong passwords")
	}
	ok, err := p.verify(user, password)
	if err != nil {
		s.server.o.Log.Error().Err(err).Msg("reading the passwords")
		return refusal(454, smtp.EnhancedCode{4, 7, 0}, "Passwords cannot be checked now")
	}
	if !ok || identity != "" && identity != user {
		s.fails++
		p.wrong(addr)
		s.server.o.Log.Warn().Stringer("client", s.conn.client).Str("user", user).Msg("wrong password")
		return smtp.ErrAuthFailed
	}
	s.user = user
	return nil
}

// verify does the same work whether or not there is such a user.
func (p *passwords) verify(user, password string) (bool, error) {
	p.mu.Lock()
	err := p.load()
	hash, known := p.hashes[user]
	if !known {
		hash = p.dummy
	}
	p.mu.Unlock()
	if err != nil {
		return false, err
	}
	p.slots <- struct{}{}
	defer func() { <-p.slots }()
	same := bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
	return same && known && password != "", nil
}

// load reads the file if it has changed.
func (p *passwords) load() error {
	info, err := os.Stat(p.path)
	if err != nil {
		return err
	}
	if p.read != nil && os.SameFile(p.read, info) && p.read.ModTime().Equal(info.ModTime()) && p.read.Size() == info.Size() {
		return nil
	}
	if info.Size() > maxPasswordFile {
		return &os.PathError{Op: "read", Path: p.path, Err: os.ErrInvalid}
	}
	data, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	hashes, cost := make(map[string][]byte), bcrypt.MinCost
	for line := range bytes.Lines(data) {
		user, hash, ok := strings.Cut(strings.TrimSpace(string(line)), ":")
		c, err := bcrypt.Cost([]byte(hash))
		if !ok || user == "" || strings.HasPrefix(user, "#") || err != nil {
			continue
		}
		hashes[user], cost = []byte(hash), max(cost, c)
	}
	dummy, err := bcrypt.GenerateFromPassword([]byte("nobody's"), cost)
	if err != nil {
		return err
	}
	p.read, p.hashes, p.dummy = info, hashes, dummy
	return nil
}

// exhausted reports whether an address has guessed too often.
func (p *passwords) exhausted(addr netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.guessers[addr]
	return g != nil && g.n >= maxAddressGuesses && time.Since(g.since) < guessPeriod
}

// wrong notes a wrong password.
func (p *passwords) wrong(addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.guessers[addr]
	if g == nil || time.Since(g.since) >= guessPeriod {
		if len(p.guessers) >= maxGuessers {
			clear(p.guessers)
		}
		g = &guesses{since: time.Now()}
		p.guessers[addr] = g
	}
	g.n++
}

// HashPassword returns the hash of a password for the file. Empty passwords and
// those of more than 72 bytes are errors.
func HashPassword(password string) (string, error) {
	if password == "" {
		return "", os.ErrInvalid
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	return string(hash), err
}
