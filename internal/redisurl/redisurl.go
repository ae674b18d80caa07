// Package redisurl reads the address of a Redis or Valkey server, as PARAMcluster
// gives it.
package redisurl

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Address says where the store is and how to connect to it.
type Address struct {
	Addrs    []string // host:port; several: those of a Redis Cluster or of Sentinels
	Master   string   // the name by which the Sentinels know the master; "": none
	DB       int
	User     string
	Password string
	TLS      bool
	TTL      time.Duration // 0: the default
	Nodes    int           // the least number of nodes among which a limit is divided without the store; 0: not known
}

// defaultPort is the port of a store.
const defaultPort = "6379"

const maxNodes = 1000

// Parse reads redis://[user:password@]host:port[,host:port...]/db?options.
// The scheme rediss selects TLS. The options are master=NAME, ttl=SPAN and
// nodes=NUMBER.
func Parse(s string) (Address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	a := Address{TLS: scheme == "rediss"}
	if !ok || scheme != "redis" && scheme != "rediss" {
		return a, fmt.Errorf("the address of the store must begin with redis:// or rediss://")
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, db, _ := strings.Cut(rest, "/")
	// The error does not quote a password that is cut at a "/" or "?".
	errUser := errors.New("user and password of the store: characters such as \"/\" are written as %2F")
	if strings.Contains(db+query, "@") {
		return a, errUser
	}
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, err := url.Parse("redis://" + hosts[:i] + "@host")
		if err != nil {
			return a, errUser
		}
		a.User = user.User.Username()
		a.Password, _ = user.User.Password()
		hosts = hosts[i+1:]
	}
	for host := range strings.SplitSeq(hosts, ",") {
		name, port, err := net.SplitHostPort(host)
		if err != nil {
			name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
		}
		if name == "" || strings.ContainsAny(name, "[]") {
			return a, fmt.Errorf("a host of the store is missing or wrong in %q", Mask(s))
		}
		a.Addrs = append(a.Addrs, net.JoinHostPort(name, cmp.Or(port, defaultPort)))
	}
	if db != "" {
		n, err := strconv.Atoi(db)
		if err != nil || n < 0 {
			return a, fmt.Errorf("%q is not the number of a database", db)
		}
		a.DB = n
	}
	if err := a.parseOptions(query); err != nil {
		return a, err
	}
	if len(a.Addrs) > 1 && a.Master == "" && a.DB != 0 {
		return a, fmt.Errorf("a Redis Cluster has only database 0")
	}
	return a, nil
}

func (a *Address) parseOptions(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("options of the store: %q", query)
	}
	for name := range values {
		switch value := values.Get(name); name {
		case "master":
			a.Master = value
		case "ttl":
			if a.TTL, err = time.ParseDuration(value); err != nil || a.TTL < time.Second || a.TTL > time.Hour {
				return fmt.Errorf("ttl=%s: a time from 1s to 1h is expected", value)
			}
		case "nodes":
			if a.Nodes, err = strconv.Atoi(value); err != nil || a.Nodes < 1 || a.Nodes > maxNodes {
				return fmt.Errorf("nodes=%s: a number from 1 to %d is expected", value, maxNodes)
			}
		default:
			return fmt.Errorf("the store has no option %q; it has master, nodes and ttl", name)
		}
	}
	return nil
}

// Mask replaces the password in an address. If the address is not one that Parse
// would read, it replaces everything before the last "@". It returns a text without
// "@" unchanged.
func Mask(s string) string {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s
	}
	shown := ""
	for _, scheme := range []string{"redis://", "rediss://"} {
		if user, _, has := strings.Cut(strings.TrimPrefix(s[:i], scheme), ":"); strings.HasPrefix(s[:i], scheme) {
			shown = scheme
			if has {
				shown += user + ":"
			}
		}
	}
	return shown + "***" + s[i:]
}

// String returns the address without user and password.
func (a *Address) String() string {
	scheme := "redis://"
	if a.TLS {
		scheme = "rediss://"
	}
	return scheme + strings.Join(a.Addrs, ",") + "/" + strconv.Itoa(a.DB)
}
