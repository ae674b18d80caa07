package ta

// This file has the accounts of agents that work with the rights of users.

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"syscall"
)

// Account is a user of the system. An agent that is root can act as that user.
type Account struct {
	Name, Home string
	FullName   string // the full name in the password file
	UID, GID   int
	Groups     []int // supplementary ones
}

// ErrNoAccount says that there is no such account. Any other error of a lookup
// is temporary.
var ErrNoAccount = errors.New("unknown")

// AccountByName looks a user up by name.
func AccountByName(name string) (*Account, error) { return newAccount(user.Lookup(name)) }

// AccountByUID looks a user up by uid.
func AccountByUID(uid int) (*Account, error) { return newAccount(user.LookupId(strconv.Itoa(uid))) }

func newAccount(u *user.User, err error) (*Account, error) {
	var noName user.UnknownUserError
	var noID user.UnknownUserIdError
	switch {
	case errors.As(err, &noName) || errors.As(err, &noID):
		return nil, ErrNoAccount
	case err != nil:
		return nil, err
	}
	acc := &Account{Name: u.Username, Home: u.HomeDir, FullName: u.Name}
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

// Credential returns the credential of a process that runs as acc, in group gid.
// It always sets the supplementary groups, so that the process keeps none of
// ours.
func (acc *Account) Credential(gid int) *syscall.Credential {
	c := &syscall.Credential{Uid: uint32(acc.UID), Gid: uint32(gid), Groups: []uint32{uint32(acc.GID)}}
	for _, g := range acc.Groups {
		c.Groups = append(c.Groups, uint32(g))
	}
	return c
}
