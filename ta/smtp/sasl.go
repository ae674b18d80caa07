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

// Secrets are the names and passwords for hosts that want them.
type Secrets struct {
	table map[string]secret
}

type secret struct {
	user, password string
	mechanisms     []string // in the order to prefer; none: the usual ones
	plaintext      bool     // may be sent over a connection without TLS
}

// usualMechanisms are tried in this order. Those that do not protect the
// password need TLS.
var usualMechanisms = []string{"EXTERNAL", "OAUTHBEARER", "PLAIN", "LOGIN"}

// ReadSecrets reads the file of -A: lines of a host, user, password, and the
// mechanisms to use. A host is the mail exchanger's name or the destination's,
// ".domain" or "*". The word "plaintext" among the mechanisms allows to send
// the password without TLS. The file must not be readable for all.
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
			return errors.New("a line is host, user, password and, if need be, mechanisms")
		}
		one := secret{user: words[1], password: words[2]}
		for _, m := range words[3:] {
			if strings.EqualFold(m, "plaintext") {
				one.plaintext = true
			} else if m = strings.ToUpper(m); slices.Contains(usualMechanisms, m) {
				one.mechanisms = append(one.mechanisms, m)
			} else {
				return fmt.Errorf("mechanism %q is none of %s", m, strings.Join(usualMechanisms, ", "))
			}
		}
		s.table[strings.ToLower(words[0])] = one
		return nil
	})
}

func (s *Secrets) find(hosts ...string) (secret, bool) {
	if s == nil {
		return secret{}, false
	}
	for _, h := range hosts {
		if h == "" {
			continue
		}
		one, ok := lookUpDomain(h, func(key string) (secret, bool) {
			one, ok := s.table[key]
			return one, ok && key != "*"
		})
		if ok {
			return one, true
		}
	}
	one, ok := s.table["*"]
	return one, ok
}

// knows says that a host has a line of its own.
func (s *Secrets) knows(host string) bool {
	if s == nil {
		return false
	}
	_, ok := lookUpDomain(host, func(key string) (secret, bool) { one, ok := s.table[key]; return one, ok && key != "*" })
	return ok
}

// client is the mechanism to use on a connection.
func (one secret) client(offered []string, protected bool, host string) (sasl.Client, error) {
	wanted := one.mechanisms
	if len(wanted) == 0 {
		wanted = []string{"PLAIN", "LOGIN"}
	}
	if !protected && !one.plaintext {
		return nil, errors.New("the password is not sent without TLS")
	}
	for _, m := range wanted {
		if !slices.Contains(offered, m) {
			continue
		}
		switch m {
		case "EXTERNAL":
			return sasl.NewExternalClient(one.user), nil
		case "OAUTHBEARER":
			return sasl.NewOAuthBearerClient(&sasl.OAuthBearerOptions{Username: one.user, Token: one.password, Host: host}), nil
		case "PLAIN":
			return sasl.NewPlainClient("", one.user, one.password), nil
		case "LOGIN":
			return sasl.NewLoginClient(one.user, one.password), nil
		}
	}
	return nil, fmt.Errorf("none of %s is offered", strings.Join(wanted, ", "))
}

// authenticate logs in where there is a secret for the host. Without success
// no mail is sent: it would only be refused, for good.
func (o *opener) authenticate(s *session, policy Policy) *openError {
	one, ok := o.secrets.find(s.target.name, policy.Domain)
	if !ok {
		return nil
	}
	client, err := one.client(s.ext.auth, s.tls || s.target.socket != "", s.target.name)
	if err != nil {
		return s.untrusted("AUTH: " + err.Error())
	}
	mechanism, initial, err := client.Start()
	if err != nil {
		return s.untrusted("AUTH: " + err.Error())
	}
	line := "AUTH " + mechanism
	s.trace(ours, line+" (secret)")
	if initial != nil {
		line += " " + encodeInitial(initial)
	}
	if err := s.sendQuietly(line); err != nil {
		return s.broken("AUTH", err)
	}
	for {
		r, err := s.reply(o.limits.Command)
		switch {
		case err != nil:
			return s.broken("AUTH", err)
		case r.OK():
			return nil
		case r.Code != 334:
			failed := s.unwilling("AUTH", r)
			failed.code, failed.policy = "4.7.8", true
			return failed
		}
		if failed := s.respond(client, r); failed != nil {
			return failed
		}
	}
}

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
	if err := s.sendQuietly(answer); err != nil {
		return s.broken("AUTH", err)
	}
	return nil
}

// encodeInitial is an initial response; an empty one is "=" (RFC 4954).
func encodeInitial(b []byte) string {
	if len(b) == 0 {
		return "="
	}
	return base64.StdEncoding.EncodeToString(b)
}
