package table

// Local users: their names as hosts, and whether they exist.

import (
	"errors"
	users "os/user"
	"strings"
	"unicode"
)

// userHost is the host of a local user in the channel local: the local part without its
// detail, in lower case, so that each user has a thread, with windows and turns as other
// hosts have. An unusual name has none of its own.
func userHost(local string) string {
	name, _, _ := strings.Cut(strings.ToLower(strings.Trim(local, `"`)), "+")
	unusual := func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, unusual) {
		return "-"
	}
	return name
}

// hasUser reports whether there is a user of that name, or of the name without its detail, as it is
// or in lower case. Most names with a detail are those of users, so the shorter one is first.
func (t *Table) hasUser(local string) bool {
	if t.HasUser == nil {
		return true
	}
	has := func(name string) bool {
		lower := strings.ToLower(name)
		return t.HasUser(name) || lower != name && t.HasUser(lower)
	}
	local = strings.Trim(local, `"`)
	base, _, _ := strings.Cut(local, "+")
	return base != "" && base != local && has(base) || has(local)
}

// lookups holds a value for each lookup that is under way. Each may search files, or ask a server,
// in a thread of its own: without a bound, many sessions would take the processors from all mail.
var lookups = make(chan struct{}, 4)

// lookUp asks the user database. Tests replace it.
var lookUp = users.Lookup

// MachineHasUser reports whether this machine has a user of that name: Table.HasUser.
// After an error of the user database it returns true: the local agent asks again.
func MachineHasUser(name string) bool {
	lookups <- struct{}{}
	defer func() { <-lookups }()
	_, err := lookUp(name)
	var unknown users.UnknownUserError
	return !errors.As(err, &unknown)
}
