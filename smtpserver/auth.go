package smtpserver

// AUTH (RFC 4954) with the mechanism PLAIN.

import (
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
)

// maxFails bounds the passwords that are refused in a session.
const maxFails = 3

// auth answers AUTH.
func (s *session) auth(arg string) error {
	words := strings.Fields(arg)
	switch {
	case s.passwordFile() == "":
		return errNotOffered
	case s.tls() == nil:
		return errNeedsTLS
	case s.user != "":
		return errAuthenticated
	case s.mail != nil:
		return errNested
	case len(words) == 0 || len(words) > 2:
		return errArgument
	case !strings.EqualFold(words[0], sasl.Plain):
		return errMechanism
	}
	mechanism, text := sasl.NewPlainServer(s.authenticate), "" // without a response: an empty challenge
	if len(words) == 2 {
		text = words[1]
	} else {
		s.reply("334 ")
		var err error
		if text, err = s.readLine(); err != nil {
			return err
		}
		if text == "*" {
			return errCancelled
		}
	}
	response, err := base64.StdEncoding.DecodeString(text)
	if text != "=" && err != nil {
		return errResponse
	}
	switch _, done, err := mechanism.Next(response); {
	case errors.As(err, new(*refusal)):
		return err
	case err != nil || !done:
		return errResponse
	}
	s.reply("235 2.7.0 Authentication succeeded")
	return nil
}

// authenticate returns nil if the password is right. A refusal comes a constant time after
// the attempt began.
func (s *session) authenticate(identity, user, password string) error {
	s.about.user = user
	if s.fails >= maxFails {
		return errAddressGuesses
	}
	began := time.Now()
	s.waitsSince.Store(began.UnixNano())
	defer s.waitsSince.Store(0)
	s.server.count(func(c *Counts) { c.Logins++ })
	err := s.check(login{user, s.client.key}, password, identity == "" || identity == user)
	if err != nil {
		s.fails++
		s.server.count(func(c *Counts) { c.LoginsRefused++ })
		s.server.pause(s.server.guesses.delay - time.Since(began))
		return err
	}
	s.user, s.about.user = user, ""
	return nil
}

// check checks a password, unless there were too many wrong ones, or too many are
// checked already. allowed says that the user may act as the identity that was asked for.
func (s *session) check(at login, password string, allowed bool) error {
	g := s.server.guesses
	if !g.begin(s.client.block) {
		return errManyLogins
	}
	defer g.end(s.client.block)
	if r := g.tooMany(at, time.Now()); r != nil {
		return r
	}
	file := s.passwordFile()
	info, _ := os.Stat(file)
	c, ok, err := verify(file, at.user, password, s.o.Log)
	if err != nil {
		s.about.err = err
		return errNoPasswords
	}
	if !ok || !allowed {
		g.wrong(at)
		return errPassword
	}
	g.right(at)
	s.login, s.loginFile = c, info
	return nil
}

// stillValid returns an error if the password file does not have the user with this password any
// more. It reads the file only if that has changed.
func (s *session) stillValid() error {
	if s.user == "" {
		return nil
	}
	file, was := s.passwordFile(), s.loginFile
	info, err := os.Stat(file)
	if err == nil && was != nil && os.SameFile(info, was) && info.Size() == was.Size() && info.ModTime().Equal(was.ModTime()) {
		return nil
	}
	c, err := lookUp(file, s.user, s.o.Log)
	switch {
	case err != nil:
		s.about.err = err
		return errNoPasswords
	case c.user == "" || c.hash != s.login.hash:
		return errLoggedOut
	}
	s.login, s.loginFile = c, info
	return nil
}

func (s *session) passwordFile() string { return s.server.config.Load().Passwords }
