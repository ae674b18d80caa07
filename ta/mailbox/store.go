package mailbox

import (
	"fmt"
	"strings"
	"time"

	"zsched/ta"
)

// order is one delivery to a mailbox or file, as a helper is told. Names and
// headers are bytes: they need not be UTF-8.
type order struct {
	Path   []byte // a Maildir if it ends in a slash
	File   bool   // named by the address, not a user's mailbox
	Letter *letter
	Host   string // of this machine
	// LockWait, TouchAccess and FatalQuota are those of Options.
	LockWait    time.Duration
	TouchAccess bool
	FatalQuota  bool
}

// do carries out an order as whoever we are.
func (o *order) do() outcome {
	deliver := appendMbox
	if !o.File && strings.HasSuffix(string(o.Path), "/") {
		deliver = deliverMaildir
	}
	out, err := deliver(o)
	if err != nil {
		return failed(err, o.FatalQuota)
	}
	out.Status = ta.OK
	return out
}

// store delivers to a mailbox or file, as its owner.
func (a *Agent) store(m *ta.Message, to target, l *letter) outcome {
	o := &order{
		Path: []byte(to.path), File: to.kind == toFile, Letter: l, Host: a.host,
		LockWait: a.LockWait, TouchAccess: a.TouchAccess, FatalQuota: a.FatalQuota,
	}
	if to.UID == a.uid {
		if a.uid == 0 {
			if err := rootsOwn(o); err != nil {
				return failed(err, a.FatalQuota)
			}
		}
		return o.do()
	}
	gid := to.GID
	if to.kind == toUser && !to.home {
		var err error
		if gid, err = prepare(o, to.Account); err != nil {
			return failed(fmt.Errorf("make mailbox: %w", err), a.FatalQuota)
		}
	}
	return a.helper.run(o, to.Account.Credential(gid), a.TimeLimit)
}
