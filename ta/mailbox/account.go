package mailbox

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"zsched/ta"
)

// privileged finds the account by whose privilege a command is run or a file
// written, and refuses nobody's.
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
