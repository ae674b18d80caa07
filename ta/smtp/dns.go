// This file holds the lookup of MX and address records (A, AAAA) in the DNS and
// the hosts file. Answers are not kept: the resolver that is asked has a cache.

package smtp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// Resolver looks up what routing needs. Names have no trailing dot.
type Resolver interface {
	// MX returns the mail exchangers of a domain in no particular order. The
	// error is ErrNotFound if the DNS answers that there is none, and any other
	// error if it does not answer.
	MX(ctx context.Context, domain string) ([]MX, error)
	// Addresses returns the addresses of a host. Errors are those of MX.
	Addresses(ctx context.Context, host string) ([]netip.Addr, error)
}

// MX is one mail exchanger. An empty Host is the null MX of RFC 7505.
type MX struct {
	Preference uint16
	Host       string
}

// ErrNotFound means that the name, or the record, does not exist.
var ErrNotFound = errors.New("not found")

// NewResolver returns the resolver of the system, including its hosts file. If
// server (host:port) is not empty, only that server is asked.
func NewResolver(server string) Resolver {
	r := &net.Resolver{PreferGo: true, StrictErrors: true}
	s := system{r, hostsFile, server}
	if server != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		}
		s.file = func(context.Context, string) []netip.Addr { return nil }
	}
	return s
}

type system struct {
	r    *net.Resolver
	file func(ctx context.Context, host string) []netip.Addr
	// server is the one that is asked; "": those of the system, which errors name.
	server string
}

// hostsFile looks up a host only in the system's hosts file. The resolver reads that
// file for names without a trailing dot, but then tries the search list of
// resolv.conf too; its Dial fails here, so it asks no server.
func hostsFile(ctx context.Context, host string) []netip.Addr {
	r := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, ErrNotFound
	}}
	found, _ := r.LookupNetIP(ctx, "ip", host) // if the name is not there, the caller asks the DNS
	return found
}

func (s system) MX(ctx context.Context, domain string) ([]MX, error) {
	found, err := s.r.LookupMX(ctx, domain+".")
	if len(found) == 0 {
		return nil, s.failure(err)
	}
	list := make([]MX, len(found))
	for i, mx := range found {
		list[i] = MX{mx.Pref, strings.ToLower(strings.TrimSuffix(mx.Host, "."))}
	}
	return list, nil
}

// Addresses looks up each family separately: a server that fails for AAAA is no
// reason to doubt the A records, and vice versa.
func (s system) Addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if found := s.file(ctx, host); len(found) > 0 {
		return unmap(found), nil
	}
	var found [2][]netip.Addr
	var failed [2]error
	var lookups sync.WaitGroup
	for i, family := range []string{"ip4", "ip6"} {
		lookups.Go(func() { found[i], failed[i] = s.r.LookupNetIP(ctx, family, host+".") })
	}
	lookups.Wait()
	if all := append(found[0], found[1]...); len(all) > 0 {
		return unmap(all), nil
	}
	if err := s.failure(failed[0]); !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return nil, s.failure(failed[1])
}

// unmap turns IPv4-mapped IPv6 addresses (::ffff:192.0.2.1) into IPv4 addresses.
func unmap(list []netip.Addr) []netip.Addr {
	for i := range list {
		list[i] = list[i].Unmap()
	}
	return list
}

// failure returns why a lookup has found nothing: which server said what.
func (s system) failure(err error) error {
	var dns *net.DNSError
	switch {
	case err == nil:
		return ErrNotFound
	case errors.As(err, &dns) && dns.IsNotFound:
		return ErrNotFound
	case errors.As(err, &dns):
		return fmt.Errorf("server %s: %s", cmp.Or(s.server, dns.Server, "unknown"), dnsText(dns))
	}
	return err
}

// misbehaving is what Go's resolver says of every answer with an error code but NXDOMAIN.
const misbehaving = "server misbehaving"

// dnsText says how the lookup failed. Of the error codes, Go's resolver tells only SERVFAIL apart.
func dnsText(err *net.DNSError) string {
	switch {
	case err.IsTimeout:
		return "no answer in time"
	case err.Err == misbehaving && err.IsTemporary:
		return "SERVFAIL"
	case err.Err == misbehaving:
		return "an error code, such as REFUSED"
	}
	return err.Err
}
