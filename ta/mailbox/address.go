package mailbox

// This file interprets the address of a recipient, which is a user's mailbox, a file
// or a command, and finds the account that delivers to it.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zsched/ta"
)

// kind says what an address is.
type kind uint8

const (
	toUser kind = iota
	toFile
	toCommand
)

// address is a user word without its quotes.
type address struct {
	kind kind
	// name is the command, the path of the file or the user. domain is what
	// follows the last @ of a user.
	name, domain string
}

// parseAddress parses the user word of a recipient.
func parseAddress(word string) address {
	text := strings.TrimLeft(unquote(word), `\`)
	if command, ok := strings.CutPrefix(text, "|"); ok {
		// |"command" means the same as "|command".
		return address{kind: toCommand, name: strings.TrimSpace(unquote(command))}
	}
	if strings.HasPrefix(text, "/") {
		return address{kind: toFile, name: text}
	}
	a := address{name: text}
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		a.name, a.domain = text[:at], text[at+1:]
	}
	a.name = strings.TrimLeft(unquote(a.name), `\`)
	return a
}

// unquote removes double quotes that enclose all of s, and the backslashes
// with which a router escapes quotes and backslashes inside.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			if i != len(s)-1 {
				return s // the quotes do not enclose all of it
			}
			return b.String()
		case '\\':
			if i++; i == len(s) {
				return s
			}
		}
		b.WriteByte(s[i])
	}
	return s
}

// target is where a recipient's mail goes, and the account that delivers it.
type target struct {
	address
	*ta.Account
	// path is the mailbox or file; a Maildir if it ends in a slash.
	path string
	// home says that the path is below the user's home directory, where root
	// creates nothing.
	home bool
}

// target finds the account and the path of a recipient's address.
func (a *Agent) target(r *ta.Recipient) (target, error) {
	to := target{address: parseAddress(r.User)}
	var err error
	if to.kind == toCommand && to.name == "" {
		return to, &failure{ta.Error, "5.1.3 (bad address)", fmt.Errorf("the command of %q is empty", r.User)}
	}
	if to.kind != toUser {
		to.path = to.name
		to.Account, err = a.privileged(r, to.kind)
	} else if to.Account, err = a.user(&to.address); err == nil {
		to.path, to.home, err = a.Place.find(to)
	}
	if err != nil {
		return to, err
	}
	if a.uid != 0 && to.UID != a.uid {
		return to, &failure{ta.Deferred, "4.3.5 (agent is not root)", fmt.Errorf(
			"this agent runs as user %d and cannot act as %q (user %d): only root can deliver to others",
			a.uid, to.Name, to.UID)}
	}
	return to, nil
}

// user finds the account of a mailbox: that of the whole name or, if there is none, of
// the name before a detail (name+detail), each as it is written and then in lower case. The
// routers of this project and of others take such addresses for the user.
func (a *Agent) user(to *address) (acc *ta.Account, err error) {
	base, _, _ := strings.Cut(to.name, "+")
	for _, name := range []string{to.name, strings.ToLower(to.name), base, strings.ToLower(base)} {
		if name == "" {
			continue
		}
		if acc, err = a.ByName(name); !errors.Is(err, ta.ErrNoAccount) {
			to.name = name
			break
		}
	}
	switch {
	case acc == nil && err == nil, errors.Is(err, ta.ErrNoAccount):
		return nil, &failure{ta.Error, "5.1.1 (no such user)", fmt.Errorf("no such user: %q", to.name)}
	case err != nil:
		return nil, &failure{ta.Deferred, "4.3.0", fmt.Errorf("look up user %q: %w", to.name, err)}
	}
	return acc, nil
}

// privileged finds the account with whose privilege a command is run or a file
// is written. It refuses the privilege of nobody.
func (a *Agent) privileged(r *ta.Recipient, k kind) (*ta.Account, error) {
	what := "files"
	if k == toCommand {
		what = "commands"
	}
	word, _, _ := strings.Cut(r.Privilege, " ")
	uid, err := strconv.Atoi(word)
	if err != nil || a.nobody(uid) {
		return nil, &failure{ta.Error, "5.7.1 (not allowed)", fmt.Errorf(
			"mail to %s is not allowed with the privilege %q of this address", what, r.Privilege)}
	}
	var acc *ta.Account
	if uid == 0 && a.RootAs != "" {
		acc, err = a.ByName(a.RootAs)
	} else {
		acc, err = a.ByUID(uid)
	}
	switch {
	case errors.Is(err, ta.ErrNoAccount):
		return nil, &failure{ta.Error, "5.7.1 (not allowed)", fmt.Errorf(
			"mail to %s is not allowed: no user has its privilege %d", what, uid)}
	case err != nil:
		return nil, &failure{ta.Deferred, "4.3.0", fmt.Errorf("look up user %d: %w", uid, err)}
	}
	return acc, nil
}

// nobody reports whether a uid is one with which routers mark addresses that
// came from outside: a negative number, one of the two largest numbers of 16 or
// 32 bits, or the uid of the user nobody.
func (a *Agent) nobody(uid int) bool {
	if uid < 0 || uid == 65534 || uid == 65535 || int64(uid) >= 1<<32-2 {
		return true
	}
	acc, err := a.ByName("nobody")
	return err == nil && acc.UID == uid
}
