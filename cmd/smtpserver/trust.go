package main

// Trust: whether the router takes mail with any sender from this user.

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// maySubmit returns an error if the router would make this user the sender of all mail:
// router(8) trusts root, its own user and ROUTERTRUSTED. Which user the router has is not
// known before it runs; it is the owner of the postoffice where that is not root.
func (c *configuration) maySubmit(uid int) error {
	office := c.env.Value("POSTOFFICE")
	info, err := os.Stat(office)
	if err != nil {
		return err
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if uid == 0 || uid == owner {
		return nil
	}
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	if slices.Contains(strings.Fields(c.env.Value("ROUTERTRUSTED")), name) {
		return nil
	}
	return fmt.Errorf("user %s may not hand in mail of others: the router would make %s the sender of every message; "+
		"start it as root, or name %s in ROUTERTRUSTED of zmailer.conf", name, name, name)
}
