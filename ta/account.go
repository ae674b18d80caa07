package ta

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// Account is a user of the system, as whom an agent that is root works.
type Account struct {
	Name, Home string
	LongName   string // the name for people, of the password file
	UID, GID   int
	Groups     []int // supplementary ones
}

// ErrNoAccount: there is no such account. Any other error is temporary.
var ErrNoAccount = errors.New("unknown")

// AccountByName asks the system for a user.
func AccountByName(name string) (*Account, error) { return account(user.Lookup(name)) }

// AccountByUID asks the system for the user who has a uid.
func AccountByUID(uid int) (*Account, error) { return account(user.LookupId(strconv.Itoa(uid))) }

// account converts what the system says of a user.
func account(u *user.User, err error) (*Account, error) {
	var noName user.UnknownUserError
	var noID user.UnknownUserIdError
	switch {
	case errors.As(err, &noName) || errors.As(err, &noID):
		return nil, ErrNoAccount
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

// Credential is who a process for an account is, in group gid. The
// supplementary groups are set in any case, so that none of ours are left.
func (acc *Account) Credential(gid int) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(acc.UID), Gid: uint32(gid), Groups: []uint32{uint32(acc.GID)}}
	for _, g := range acc.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}
