package smtp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Resolver is the DNS as routing needs it. Names come and go without the dot
// at their end.
type Resolver interface {
	// MX returns the mail exchangers of a domain in no particular order. The
	// error is ErrNotFound where the DNS answers that there is none, anything
	// else where it does not answer.
	MX(ctx context.Context, domain string) ([]MX, error)
	// Addresses returns the addresses of a host; errors as for MX.
	Addresses(ctx context.Context, host string) ([]netip.Addr, error)
}

// MX is one mail exchanger. An empty Host is the null MX of RFC 7505.
type MX struct {
	Preference uint16
	Host       string
}

// ErrNotFound: no such name, or no such record of it.
var ErrNotFound = errors.New("not found")

// NewResolver is the resolver of the system, its hosts file included, or one
// that asks the server at an address, host and port, alone.
func NewResolver(server string) Resolver {
	r := &net.Resolver{PreferGo: true, StrictErrors: true}
	s := system{r, hostsFile}
	if server != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		}
		s.file = func(context.Context, string) []netip.Addr { return nil }
	}
	return &cache{ask: s, now: time.Now,
		mx: map[string]cached[[]MX]{}, addresses: map[string]cached[[]netip.Addr]{}}
}

type system struct {
	r    *net.Resolver
	file func(ctx context.Context, host string) []netip.Addr
}

// hostsFile looks into the system's hosts file alone. The resolver does so only
// for names without the dot at their end, for which it would go through the
// domains of resolv.conf as well: here it has nobody to ask.
func hostsFile(ctx context.Context, host string) []netip.Addr {
	r := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, ErrNotFound
	}}
	found, _ := r.LookupNetIP(ctx, "ip", host) // not there: the DNS is asked
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found
}

func (s system) MX(ctx context.Context, domain string) ([]MX, error) {
	found, err := s.r.LookupMX(ctx, domain+".")
	if len(found) == 0 {
		return nil, dnsError(err)
	}
	list := make([]MX, len(found))
	for i, mx := range found {
		list[i] = MX{mx.Pref, strings.ToLower(strings.TrimSuffix(mx.Host, "."))}
	}
	return list, nil
}

// Addresses asks for both families by themselves: servers that know no AAAA
// are no reason to doubt the A, and the other way round.
func (s system) Addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if there := s.file(ctx, host); len(there) > 0 {
		return unmap(there), nil
	}
	var found [2][]netip.Addr
	var failed [2]error
	var asking sync.WaitGroup
	for i, family := range []string{"ip4", "ip6"} {
		asking.Go(func() { found[i], failed[i] = s.r.LookupNetIP(ctx, family, host+".") })
	}
	asking.Wait()
	if all := append(found[0], found[1]...); len(all) > 0 {
		return unmap(all), nil
	}
	if err := dnsError(failed[0]); !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	return nil, dnsError(failed[1])
}

// unmap makes IPv4 addresses of those that are dressed up as IPv6.
func unmap(list []netip.Addr) []netip.Addr {
	for i := range list {
		list[i] = list[i].Unmap()
	}
	return list
}

func dnsError(err error) error {
	var dns *net.DNSError
	switch {
	case err == nil:
		return ErrNotFound
	case errors.As(err, &dns) && dns.IsNotFound:
		return ErrNotFound
	case errors.As(err, &dns):
		return errors.New(dns.Err)
	}
	return err
}

const (
	// answerLife is how long an answer is used again: about as long as a burst
	// of mail lasts, so that the records' own times need not be known.
	answerLife = time.Minute
	answerRoom = 10_000
)

// cache spares the DNS the same question for each message of a queue.
// Failures to answer are not kept.
type cache struct {
	ask Resolver
	now func() time.Time

	mu        sync.Mutex
	mx        map[string]cached[[]MX]
	addresses map[string]cached[[]netip.Addr]
}

type cached[T any] struct {
	value T
	err   error
	until time.Time
}

func (c *cache) MX(ctx context.Context, domain string) ([]MX, error) {
	return recall(c, c.mx, domain, func() ([]MX, error) { return c.ask.MX(ctx, domain) })
}

func (c *cache) Addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	return recall(c, c.addresses, host, func() ([]netip.Addr, error) { return c.ask.Addresses(ctx, host) })
}

func recall[T any](c *cache, known map[string]cached[T], name string, ask func() (T, error)) (T, error) {
	c.mu.Lock()
	old, ok := known[name]
	c.mu.Unlock()
	if ok && c.now().Before(old.until) {
		return old.value, old.err
	}
	value, err := ask()
	if err == nil || errors.Is(err, ErrNotFound) {
		c.mu.Lock()
		if len(known) >= answerRoom {
			clear(known)
		}
		known[name] = cached[T]{value, err, c.now().Add(answerLife)}
		c.mu.Unlock()
	}
	return value, err
}
