package config

// Users and groups, and the other facts about this machine that a file needs.

import (
	"fmt"
	"math"
	"net"
	"os"
	"os/user"
	"strconv"
	"time"

	"zsched/internal/zenv"
	"zsched/scheduler"
)

// System contains the facts about the machine that the reader needs.
type System struct {
	Zenv *zenv.File
	// UID and GID are those of the scheduler. Only UID 0 can start agents as
	// another user.
	UID, GID int
	// User and Group return the number of a name.
	User, Group func(name string) (int, error)
	// Location is the time zone of dates; nil: local time.
	Location *time.Location
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
// that this machine knows.
type account struct {
	what   string // user or group
	field  func(*scheduler.Params) *int
	lookup func(System) func(string) (int, error)
	self   func(System) int // the scheduler's own
}

func (k account) String() string { return "name or number" }

func (k account) read(text string, r *reader) (func(*scheduler.Params), error) {
	id, err := k.resolve(text, r)
	if err != nil {
		return nil, err
	}
	// A scheduler that does not run as root can start agents only as its own
	// user, which the parameters represent as -1.
	if r.system.UID != 0 {
		if id != k.self(r.system) {
			r.warnOnce("only root can start agents as another "+k.what+"; they keep the scheduler's own %s", k.what)
		}
		id = -1
	}
	return func(p *scheduler.Params) { *k.field(p) = id }, nil
}

func (k account) resolve(text string, r *reader) (int, error) {
	if text[0] >= '0' && text[0] <= '9' {
		// The system calls take the highest number to mean "no change".
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil || id >= math.MaxUint32 {
			return 0, fmt.Errorf("the number of a %s must be from 0 to %d", k.what, uint32(math.MaxUint32-1))
		}
		return int(id), nil
	}
	id, err := k.lookup(r.system)(text)
	if err != nil {
		return 0, fmt.Errorf("this machine has no such %s", k.what)
	}
	return id, nil
}

func (k account) show(p *scheduler.Params) string {
	if id := *k.field(p); id >= 0 {
		return strconv.Itoa(id)
	}
	return ""
}
