package smtpserver

// Passwords: the file of users and their bcrypt hashes.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"
)

const (
	// maxPasswordFile bounds the size of the password file in bytes.
	maxPasswordFile = 16 << 20
	// maxHashCost bounds the cost of a hash: a check with 15 takes about two seconds,
	// and each further step doubles that.
	maxHashCost = 15
)

// passwords is the file of users and their bcrypt hashes, "user:hash" one a
// line. It is read again when it has changed.
type passwords struct {
	path string // "" for none
	log  zerolog.Logger

	mu     sync.Mutex
	read   os.FileInfo // of the file when it was read
	hashes map[string][]byte
	dummy  []byte // a hash that takes as long to check as that of a user
}

func newPasswords(path string, log zerolog.Logger) *passwords {
	return &passwords{path: path, log: log}
}

// verify reports whether the password is right. It takes the same time whether or not
// there is such a user.
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
	same := bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
	return same && known && password != "", nil
}

// load reads the file if it has changed. It logs each line that it cannot use.
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
	n := 0
	for line := range bytes.Lines(data) {
		n++
		user, hash, c, err := parseUser(strings.TrimSpace(string(line)))
		if err != nil {
			p.log.Error().Str("place", fmt.Sprintf("%s:%d", p.path, n)).Err(err).Msg("line of the password file is ignored")
		}
		if err == nil && user != "" {
			hashes[user], cost = hash, max(cost, c)
		}
	}
	dummy, err := bcrypt.GenerateFromPassword([]byte("nobody's"), cost)
	if err != nil {
		return err
	}
	p.read, p.hashes, p.dummy = info, hashes, dummy
	return nil
}

// parseUser parses a line of the file, and returns the cost of the hash, too. A comment
// or an empty line has no user. Its errors do not quote the hash.
func parseUser(line string) (user string, hash []byte, cost int, err error) {
	if line == "" || strings.HasPrefix(line, "#") {
		return "", nil, 0, nil
	}
	user, rest, ok := strings.Cut(line, ":")
	if !ok || user == "" {
		return "", nil, 0, errors.New("it is not user:hash")
	}
	hash = []byte(rest)
	switch cost, err = bcrypt.Cost(hash); {
	case err != nil:
		return "", nil, 0, fmt.Errorf("user %q: the text after the colon is not a bcrypt hash", user)
	case cost > maxHashCost:
		return "", nil, 0, fmt.Errorf("user %q: the cost of the hash is %d, which is above %d", user, cost, maxHashCost)
	}
	return user, hash, cost, nil
}
