package mailbox

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"zsched/ta"
)

// Account is a user of the system.
type Account struct {
	Name, Home string
	LongName   string // the name for people, of the password file
	UID, GID   int
	Groups     []int // supplementary ones
}

// ErrUnknown: there is no such account.
var ErrUnknown = errors.New("unknown")

func accountByName(name string) (*Account, error) { return account(user.Lookup(name)) }

func accountByUID(uid int) (*Account, error) { return account(user.LookupId(strconv.Itoa(uid))) }

// account converts what the system says of a user.
func account(u *user.User, err error) (*Account, error) {
	var noName user.UnknownUserError
	var noID user.UnknownUserIdError
	switch {
	case errors.As(err, &noName) || errors.As(err, &noID):
		return nil, ErrUnknown
	case err != nil:
		return nil, err
	}
	acc := &Account{Name: u.Username, Home: u.HomeDir, LongName: u.Name}
	if acc.UID, err = strconv.Atoi(u.Uid); err != nil {
		return nil, err
	}
	if acc.GID, err = strconv.Atoi(u.Gid); err != nil {
		return nil, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("its groups: %w", err)
	}
	for _, g := range groups {
		gid, err := strconv.Atoi(g)
		if err != nil {
			return nil, err
		}
		acc.Groups = append(acc.Groups, gid)
	}
	return acc, nil
}

// privileged finds the account by whose privilege a command is run or a file
// written, and refuses nobody's.
func (a *Agent) privileged(r *ta.Recipient, k kind) (*Account, error) {
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
	var acc *Account
	if uid == 0 && a.RootAs != "" {
		acc, err = a.ByName(a.RootAs)
	} else {
		acc, err = a.ByUID(uid)
	}
	switch {
	case errors.Is(err, ErrUnknown):
		return nil, &failure{ta.Error, "5.7.1 (not allowed)", fmt.Errorf(
			"mail to %s is not allowed: its privilege %d is no user's", what, uid)}
	case err != nil:
		return nil, &failure{ta.Deferred, "4.3.0", fmt.Errorf("look up user %d: %w", uid, err)}
	}
	return acc, nil
}

// nobody says whether a uid is one of those by which a router marks addresses
// that came from outside: a negative number, the greatest of 16 bits, or the
// user nobody.
func (a *Agent) nobody(uid int) bool {
	if uid < 0 || uid == 65534 || uid == 65535 || int64(uid) >= 1<<32-2 {
		return true
	}
	acc, err := a.ByName("nobody")
	return err == nil && acc.UID == uid
}
