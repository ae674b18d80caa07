package smtpserver

// Passwords: the file of users and their bcrypt hashes.

import (
	"bytes"
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

// verify reports whether a password is right, by a file of lines "user:hash" or
// "user:hash:sender,..." with bcrypt hashes, and returns the senders. It takes the same time
// whether or not there is such a user. A hash of the user that cannot be used is logged.
func verify(file, user, password string, log zerolog.Logger) (own senders, right bool, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, false, err
	}
	known, hash, most := false, "", 0 // a hash of most cost takes the time if the user is not known
	for line := range bytes.Lines(data) {
		name, other, found := strings.Cut(strings.TrimSpace(string(line)), ":")
		if !found || name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		other, list, bound := strings.Cut(other, ":")
		switch cost, err := bcrypt.Cost([]byte(other)); {
		case err != nil || cost > maxHashCost:
			if name == user {
				log.Error().Str("file", file).Str("user", user).Int("cost", cost).Msg("the text after the colon is not a bcrypt hash, or its cost is above 15")
			}
		case name == user:
			known, hash, own = true, other, nil
			if bound {
				own = strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
			}
		case !known && cost > most:
			hash, most = other, cost
		}
	}
	if hash == "" {
		return nil, false, nil
	}
	same := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password)) == nil
	return own, same && known && password != "", nil
}
