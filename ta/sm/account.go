package sm

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"

	"zsched/ta"
)

// Account is a user of this machine.
type Account struct {
	Name, Home string // "" for a uid that nobody has
	UID, GID   int
	Groups     []int // supplementary

	own bool // that of the agent: nothing is to be changed
}

// nobody is the uid and gid of those who have no rights.
const nobody = 65534

// runAs is the user as whom a recipient's program runs: its privilege, or the
// agent's own user.
func (a *Agent) runAs(r *ta.Recipient) (Account, error) {
	if a.Mailer.Flags&OwnUser != 0 {
		return Account{UID: a.UID, own: true}, nil
	}
	uid, err := readPrivilege(r.Privilege)
	if err != nil {
		return Account{}, err
	}
	if uid != a.UID && a.UID != 0 {
		return Account{}, fmt.Errorf("the recipient's privilege is uid %d and sm runs as uid %d: "+
			"sm must be started by root, or its mailer %s have flag S", uid, a.UID, a.Mailer.Name)
	}
	account, err := a.Account(uid)
	if err != nil {
		return Account{}, fmt.Errorf("find uid %d: %w", uid, err)
	}
	// Root has whatever groups the scheduler gave us, unless they are set.
	account.own = uid == a.UID && uid != 0
	return account, nil
}

// readPrivilege reads the number with which a privilege begins. Negative ones
// are nobody's, as ever.
func readPrivilege(s string) (uid int, err error) {
	number := strings.TrimPrefix(s, "-")
	digits := number[:len(number)-len(strings.TrimLeft(number, "0123456789"))]
	if uid, err = strconv.Atoi(digits); err != nil || int64(uid) > 1<<32-2 {
		return 0, fmt.Errorf("the recipient's privilege %q is no uid", s)
	}
	if number != s && uid != 0 {
		uid = nobody
	}
	return uid, nil
}

// findAccount asks the system. A uid that nobody has runs without groups.
func findAccount(uid int) (Account, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) {
		return Account{UID: uid, GID: nobody}, nil
	}
	if err != nil {
		return Account{}, err
	}
	account := Account{Name: u.Username, Home: u.HomeDir, UID: uid}
	if account.GID, err = strconv.Atoi(u.Gid); err != nil {
		return Account{}, err
	}
	groups, err := u.GroupIds()
	if err != nil {
		return Account{}, err
	}
	for _, g := range groups {
		if gid, err := strconv.Atoi(g); err == nil {
			account.Groups = append(account.Groups, gid)
		}
	}
	return account, nil
}
