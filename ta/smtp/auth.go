// This file holds AUTH: the file of secrets (option -A) and the SASL exchange.

package smtp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/emersion/go-sasl"
)

// Secrets are the user names and passwords for hosts that demand them.
type Secrets struct {
	table map[string]secret // by host, ".domain" or "*"
}

type secret struct {
	user, password string
	plaintext      bool // the password may be sent without TLS
}

// ReadSecrets reads the file of -A. Each line is a host, a user and a password. The host
// is the mail exchanger's name, the destination's, ".domain" or "*". The word "plaintext"
// after the password permits sending it without TLS. It is an error if others may
// read or write the file.
func ReadSecrets(name string) (*Secrets, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("%s: everybody may read or write it", name)
	}
	s := &Secrets{table: map[string]secret{}}
	return s, eachLine(name, func(words []string) error {
		if len(words) < 3 {
			return errors.New("a line consists of host, user, password and, optionally, the word plaintext")
		}
		one := secret{user: words[1], password: words[2]}
		for _, word := range words[3:] {
			if !strings.EqualFold(word, "plaintext") {
				return fmt.Errorf("%q is not the word plaintext", word)
			}
			one.plaintext = true
		}
		host, err := canonicalHost(words[0])
		s.table[host] = one
		return err
	})
}

// find returns the secret of the first host that has one of its own, else the one
// of "*".
func (s *Secrets) find(hosts ...string) (secret, bool) {
	if s == nil {
		return secret{}, false
	}
	for _, h := range hosts {
		if one, ok := findOwn(s.table, h); ok && h != "" {
			return one, true
		}
	}
	one, ok := s.table["*"]
	return one, ok
}

// has reports whether a host has a secret of its own.
func (s *Secrets) has(host string) bool {
	if s == nil {
		return false
	}
	_, ok := findOwn(s.table, host)
	return ok
}

// client returns the mechanism to use. protected says that nobody can eavesdrop on
// the connection.
func (one secret) client(offered []string, protected bool) (sasl.Client, error) {
	switch {
	case !protected && !one.plaintext:
		return nil, errors.New("the password is not sent without TLS")
	case slices.Contains(offered, sasl.Plain):
		return sasl.NewPlainClient("", one.user, one.password), nil
	case slices.Contains(offered, sasl.Login):
		return sasl.NewLoginClient(one.user, one.password), nil
	}
	return nil, errors.New("neither PLAIN nor LOGIN is offered")
}

// authenticate logs in if there is a secret for the host. If the login fails, no
// mail is sent, because the server might refuse the mail permanently.
func (o *opener) authenticate(s *session, policy Policy) *openError {
	one, ok := o.secrets.find(s.target.name, policy.Domain)
	if !ok {
		return nil
	}
	client, err := one.client(s.ext.auth, s.tls || s.target.socket != "")
	if err != nil {
		return s.violates("AUTH: " + err.Error())
	}
	mechanism, initial, err := client.Start()
	if err != nil {
		return s.violates("AUTH: " + err.Error())
	}
	line := "AUTH " + mechanism
	s.trace(ours, line+" (secret)")
	if initial != nil {
		line += " " + encodeInitial(initial)
	}
	if err := s.sendUnlogged(line); err != nil {
		return s.lost("AUTH", err)
	}
	for range maxChallenges {
		r, err := s.reply(o.timeouts.Command)
		switch {
		case err != nil:
			return s.lost("AUTH", err)
		case r.OK():
			return nil
		case r.Code != 334:
			failed := s.refused(r)
			failed.code, failed.policy = "4.7.8", true
			return failed
		}
		if failed := s.respond(client, r); failed != nil {
			return failed
		}
	}
	return s.violates(fmt.Sprintf("AUTH: no end after %d challenges", maxChallenges))
}

// maxChallenges is how many challenges are answered. No mechanism has more than
// three.
const maxChallenges = 8

// respond answers one challenge.
func (s *session) respond(client sasl.Client, r Reply) *openError {
	challenge, err := base64.StdEncoding.DecodeString(strings.TrimSpace(replyText(r.Lines[len(r.Lines)-1])))
	var response []byte
	if err == nil {
		response, err = client.Next(challenge)
	}
	answer := base64.StdEncoding.EncodeToString(response)
	if err != nil {
		answer = "*"
	}
	s.trace(ours, "(secret)")
	if err := s.sendUnlogged(answer); err != nil {
		return s.lost("AUTH", err)
	}
	return nil
}

// encodeInitial encodes an initial response. An empty one is "=" (RFC 4954).
func encodeInitial(b []byte) string {
	if len(b) == 0 {
		return "="
	}
	return base64.StdEncoding.EncodeToString(b)
}
