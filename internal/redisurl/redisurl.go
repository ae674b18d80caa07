// Package redisurl reads the URL of a Redis or Valkey server, as PARAMcluster gives it.
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
	Addrs    []string // host:port of the server, or of the Sentinels
	Master   string   // the name by which the Sentinels know the server; "": there are none
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

// Parse reads redis://[user:password@]host:port/db?options. The scheme rediss selects
// TLS. The options are master_name=NAME and addr=HOST:PORT of further Sentinels, as
// go-redis has them, ttl=SPAN and nodes=NUMBER. No error has the password.
func Parse(s string) (Address, error) {
	u, err := url.Parse(s)
	scheme, _, _ := strings.Cut(s, "://")
	switch {
	case scheme != "redis" && scheme != "rediss":
		return Address{}, errors.New("the address of the store must begin with redis:// or rediss://")
	case strings.Contains(s, ","):
		return Address{}, errors.New("one server is expected; further Sentinels are given as addr=HOST:PORT, and a Redis Cluster cannot be the store")
	case err != nil || strings.Contains(u.Path+u.RawQuery, "@"):
		return Address{}, errors.New("this is no URL; in user and password, characters such as \"/\" are written as %2F")
	}
	a := Address{TLS: scheme == "rediss", User: u.User.Username()}
	a.Password, _ = u.User.Password()
	if db := strings.TrimPrefix(u.Path, "/"); db != "" {
		if a.DB, err = strconv.Atoi(db); err != nil || a.DB < 0 {
			return a, fmt.Errorf("%q is not the number of a database", db)
		}
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return a, fmt.Errorf("options of the store: %q", u.RawQuery)
	}
	for _, host := range append([]string{u.Host}, options["addr"]...) {
		part, err := url.Parse("//" + host)
		if err != nil || part.Hostname() == "" || part.Host != host || strings.ContainsAny(part.Hostname(), "[]") {
			return a, fmt.Errorf("a host of the store is missing or wrong in %q", Mask(s))
		}
		a.Addrs = append(a.Addrs, net.JoinHostPort(part.Hostname(), cmp.Or(part.Port(), defaultPort)))
	}
	if err := a.readOptions(options); err != nil {
		return a, err
	}
	if len(a.Addrs) > 1 && a.Master == "" {
		return a, errors.New("addr= names a Sentinel, and master_name= is missing")
	}
	return a, nil
}

func (a *Address) readOptions(options url.Values) (err error) {
	for name := range options {
		switch value := options.Get(name); name {
		case "addr":
		case "master_name":
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
			return fmt.Errorf("the store has no option %q; it has addr, master_name, nodes and ttl", name)
		}
	}
	return nil
}

// Mask replaces user and password in an address, which need not be one that Parse would
// read. It returns a text without "@" unchanged.
func Mask(s string) string {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s
	}
	scheme, _, found := strings.Cut(s[:i], "://")
	if !found {
		return "***" + s[i:]
	}
	return scheme + "://***" + s[i:]
}

// String returns the address without user and password.
func (a *Address) String() string {
	scheme := "redis://"
	if a.TLS {
		scheme = "rediss://"
	}
	return scheme + strings.Join(a.Addrs, ",") + "/" + strconv.Itoa(a.DB)
}
