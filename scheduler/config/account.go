package config

// Users and groups, and the other facts about this machine that a file needs.

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/user"
	"strconv"

	"zsched/internal/zenv"
)

// System contains the facts about the machine that the reader needs.
type System struct {
	Zenv *zenv.File
	// UID and GID are those of the scheduler. Only UID 0 can start agents as
	// another user.
	UID, GID int
	// User and Group return the number of a name.
	User, Group func(name string) (int, error)
	// Port returns the number of a TCP service.
	Port func(service string) (int, error)
}

// Host returns the System of this machine and of the user that this process
// runs as.
func Host(env *zenv.File) System {
	return System{
		Zenv:  env,
		UID:   os.Geteuid(),
		GID:   os.Getegid(),
		User:  userNumber,
		Group: groupNumber,
		Port:  func(service string) (int, error) { return net.LookupPort("tcp", service) },
	}
}

func userNumber(name string) (int, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Uid)
}

func groupNumber(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}

// account is a user or a group: a number if it begins with a digit, else a name
// that this machine knows. -1 stands for the scheduler's own.
func account(what string) func(...string) kind {
	parse := func(text string, r *reader) (int, error) {
		lookup, own := r.system.User, r.system.UID
		if what == "group" {
			lookup, own = r.system.Group, r.system.GID
		}
		id, err := accountNumber(text, what, lookup)
		if err != nil || r.system.UID == 0 {
			return id, err
		}
		if id != own {
			r.warnOnce("only root can start agents as another "+what+"; they keep the scheduler's own %s", what)
		}
		return -1, nil
	}
	return kindOf("name or number", parse).plain
}

func accountNumber(text, what string, lookup func(string) (int, error)) (int, error) {
	if text[0] >= '0' && text[0] <= '9' {
		// The system calls take the highest number to mean "no change".
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil || id >= math.MaxUint32 {
			return 0, fmt.Errorf("the number of a %s must be from 0 to %d", what, uint32(math.MaxUint32-1))
		}
		return int(id), nil
	}
	id, err := lookup(text)
	if err != nil {
		return 0, fmt.Errorf("this machine has no such %s", what)
	}
	return id, nil
}
