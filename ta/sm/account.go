package sm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zsched/ta"
)

// runner is as whom a program runs.
type runner struct {
	*ta.Account
	own bool // the agent's own user: nothing is to be changed
}

// nobody is the uid and gid of those who have no rights.
const nobody = 65534

// runAs is the user as whom a recipient's program runs: its privilege, or the
// agent's own user.
func (a *Agent) runAs(r *ta.Recipient) (runner, error) {
	if a.Mailer.Flags&OwnUser != 0 {
		return runner{&ta.Account{UID: a.UID}, true}, nil
	}
	uid, err := readPrivilege(r.Privilege)
	if err != nil {
		return runner{}, err
	}
	if uid != a.UID && a.UID != 0 {
		return runner{}, fmt.Errorf("the recipient's privilege is uid %d and sm runs as uid %d: "+
			"sm must be started by root, or its mailer %s have flag S", uid, a.UID, a.Mailer.Name)
	}
	account, err := a.Account(uid)
	if err != nil {
		return runner{}, fmt.Errorf("find uid %d: %w", uid, err)
	}
	// Root has whatever groups the scheduler gave us, unless they are set.
	return runner{account, uid == a.UID && uid != 0}, nil
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

// findAccount asks the system. A uid that nobody has runs without groups, and
// has neither name nor home.
func findAccount(uid int) (*ta.Account, error) {
	acc, err := ta.AccountByUID(uid)
	if errors.Is(err, ta.ErrNoAccount) {
		return &ta.Account{UID: uid, GID: nobody}, nil
	}
	return acc, err
}
