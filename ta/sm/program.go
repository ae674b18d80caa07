package sm

// The user that a program runs as, and its environment.

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"zsched/ta"
)

// user is the user that a program runs as.
type user struct {
	*ta.Account
	own bool // the agent's own user: the program inherits it
}

// nobody is the uid and the gid of the user nobody.
const nobody = 65534

// runAs is the user that a recipient's program runs as: the recipient's
// privilege or, with flag S, the agent's own user.
func (a *Agent) runAs(r *ta.Recipient) (user, error) {
	if a.Mailer.Flags&OwnUser != 0 {
		return user{&ta.Account{UID: a.UID}, true}, nil
	}
	uid, err := parsePrivilege(r.Privilege)
	if err != nil {
		return user{}, err
	}
	if uid != a.UID && a.UID != 0 {
		return user{}, fmt.Errorf("the recipient's privilege is uid %d and sm runs as uid %d: "+
			"sm must be started by root, or its mailer %s must have flag S", uid, a.UID, a.Mailer.Name)
	}
	account, err := a.Account(uid)
	if err != nil {
		return user{}, fmt.Errorf("find uid %d: %w", uid, err)
	}
	// For root the groups are set too: the agent may have groups that are not
	// root's.
	return user{account, uid == a.UID && uid != 0}, nil
}

// parsePrivilege parses the number that a privilege begins with. A negative
// number means nobody, as it always did in ZMailer.
func parsePrivilege(s string) (uid int, err error) {
	number := strings.TrimPrefix(s, "-")
	digits := number[:len(number)-len(strings.TrimLeft(number, "0123456789"))]
	if uid, err = strconv.Atoi(digits); err != nil || int64(uid) > 1<<32-2 {
		return 0, fmt.Errorf("the recipient's privilege %q is not a uid", s)
	}
	if number != s && uid != 0 {
		uid = nobody
	}
	return uid, nil
}

// findAccount looks the uid up in the system. For a uid that no user has it
// returns an account without groups, name and home.
func findAccount(uid int) (*ta.Account, error) {
	acc, err := ta.AccountByUID(uid)
	if errors.Is(err, ta.ErrNoAccount) {
		return &ta.Account{UID: uid, GID: nobody}, nil
	}
	return acc, err
}

// environment is the agent's own environment with the user's name and home.
func environment(as user) []string {
	env := os.Environ()
	if _, ok := os.LookupEnv("PATH"); !ok {
		env = append(env, "PATH=/usr/bin:/bin")
	}
	name, home := as.Name, as.Home
	if name == "" && !as.own { // the agent's own name and home would be wrong
		name, home = strconv.Itoa(as.UID), "/"
	}
	if name != "" {
		env = append(env, "USER="+name, "LOGNAME="+name, "HOME="+home, "SHELL=/bin/sh")
	}
	return env
}
