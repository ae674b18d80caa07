package smtpserver

// Passwords: the file of users and their bcrypt hashes.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/crypto/bcrypt"
)

// maxHashCost bounds the cost of a hash: a check with 15 takes about two seconds, and each
// further step doubles that.
const maxHashCost = 15

// senders are the addresses that a login may use, and @domain for all of a domain; nil: any.
type senders []string

func (s senders) allow(address string) bool {
	return s == nil || slices.ContainsFunc(s, func(one string) bool {
		return strings.EqualFold(one, address) || strings.EqualFold(one, address[strings.LastIndexByte(address, '@'):])
	})
}

// credential is a line of the password file: user:hash or user:hash:sender,...
type credential struct {
	user, hash string
	cost       int
	own        senders
}

// parseCredential reads a line; in that of a comment there is no user. An error says why nobody
// can log in with it.
func parseCredential(line string) (c credential, err error) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return c, nil
	}
	user, rest, found := strings.Cut(line, ":")
	if !found || user == "" {
		return c, errors.New("the line is not user:hash")
	}
	hash, list, bound := strings.Cut(rest, ":")
	c.user, c.hash = user, hash
	if bound {
		c.own = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if c.cost, err = bcrypt.Cost([]byte(hash)); err != nil || c.cost > maxHashCost {
		return c, errors.New("the text after the colon is not a bcrypt hash, or its cost is above 15")
	}
	return c, nil
}

// lookUp returns the line of a user in a file of credentials. If there is none, found has no user, and the
// hash of another line with the highest cost. A hash of the user that cannot be used is logged.
func lookUp(file, user string, log zerolog.Logger) (found credential, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return found, err
	}
	for line := range bytes.Lines(data) {
		switch c, err := parseCredential(string(line)); {
		case c.user == "":
		case err != nil:
			if c.user == user {
				log.Error().Str("file", file).Str("user", user).Int("cost", c.cost).Msg(err.Error())
			}
		case c.user == user:
			found = c
		case found.user == "" && c.cost > found.cost:
			found = credential{hash: c.hash, cost: c.cost}
		}
	}
	return found, nil
}

// verify reports whether a password is right, by a file of credentials, and returns the
// user's line. It takes the same time whether or not there is such a user.
func verify(file, user, password string, log zerolog.Logger) (c credential, right bool, err error) {
	if c, err = lookUp(file, user, log); err != nil || c.hash == "" {
		return c, false, err
	}
	same := bcrypt.CompareHashAndPassword([]byte(c.hash), []byte(password)) == nil
	return c, same && c.user != "" && password != "", nil
}

// CheckPasswords reads the password file; "": there is none. The problems are lines with which
// nobody can log in, and senders that no address matches. The error says why nobody can log in
// at all.
func CheckPasswords(file string) (problems []error, err error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("passwords: %w", err)
	}
	number, usable := 0, false
	for line := range bytes.Lines(data) {
		number++
		c, err := parseCredential(string(line))
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", file, number, err))
			continue
		}
		usable = usable || c.user != ""
		for _, sender := range c.own {
			if !strings.Contains(sender, "@") {
				problems = append(problems, fmt.Errorf("%s:%d: sender %.100q is neither an address nor @domain", file, number, sender))
			}
		}
	}
	if !usable {
		err = fmt.Errorf("passwords: %s has no line with which a user could log in", file)
	}
	return problems, err
}
