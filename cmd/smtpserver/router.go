package main

// The router: whether it would fail an address, and whether it takes mail with any sender from
// this user.

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"zsched/internal/zenv"
	"zsched/router/table"
	"zsched/smtpserver"
)

// recipients looks addresses up in routes(5) and aliases(5).
type recipients struct {
	log zerolog.Logger

	mu     sync.Mutex
	loader *table.Loader
}

// newRecipients reads the tables.
func newRecipients(env *zenv.File, hostname string, log zerolog.Logger) (*recipients, error) {
	r := &recipients{log: log, loader: table.NewLoader(env.Value("MAILSHARE"), env.Value("ORGDOMAIN"), hostname)}
	r.loader.HasUser = table.MachineHasUser
	return r, r.loader.Load()
}

// current returns the table in force, which it reads again if its files have changed.
func (r *recipients) current() *table.Table {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.loader.Refresh(time.Now(), false); err != nil {
		r.log.Error().Err(err).Msg("the tables have errors; the old ones stay in force")
	}
	return r.loader.Table()
}

// check returns why the router would fail an address: CheckRecipient of
// smtpserver.Options.
func (r *recipients) check(address string) error {
	if local, _, _ := strings.Cut(address, "@"); strings.EqualFold(local, "postmaster") {
		return nil // RFC 5321 section 4.5.1
	}
	switch r.current().Fault(address) {
	case table.UnknownUser:
		return smtpserver.ErrNoUser
	case table.NoRoute:
		return smtpserver.ErrNoRoute
	}
	return nil
}

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
