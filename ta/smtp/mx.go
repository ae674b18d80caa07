// This file holds the routing from a host word to mail exchangers: MX records, null
// MX, address literals, lists of hosts, and loops.

package smtp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// target is one place that accepts mail for a destination: a mail exchanger or a
// unix socket.
type target struct {
	// name is the host's name in lower case, an address in brackets, or the
	// path of a socket. Limits, TLS and the destination database use it.
	name      string
	addresses []netip.AddrPort // in the order to try; none for a socket
	socket    string           // path of a unix socket, or ""
}

// remote returns the name of the target in notices: "dns; mx.example.net
// (192.0.2.1)".
func (t *target) remote(address string) string {
	switch {
	case t.socket != "":
		return "x-unix; " + t.socket
	case address == "":
		return "dns; " + t.name
	}
	return "dns; " + t.name + " (" + address + ")"
}

// site returns the name of the target for the scheduler (scheduler.cf(5), sitemax);
// "": it is a socket of this machine.
func (t *target) site() string {
	if t.socket != "" {
		return ""
	}
	return t.name
}

// failure is the reason why mail cannot be delivered to a destination, now or at
// all.
type failure struct {
	permanent  bool
	code       string // enhanced status code
	diagnostic string // for notices
	policy     bool   // TLS or a password is missing, which does not affect other destinations
	remote     string // the server that gave the reason, or ""
	text       string // for people; a transcript begins with CR
}

func (f *failure) Error() string { return f.text }

// router finds the targets of a host word (RFC 5321 section 5).
type router struct {
	resolver  Resolver
	port      int
	forced    string                // destination of all mail, or ""
	noMX      bool                  // look up addresses only
	localOK   bool                  // our own addresses do not count as a loop
	ipv6First bool                  // else IPv4 first
	name      string                // our host name
	ours      func(netip.Addr) bool // whether an address is one of this machine
}

const (
	maxExchangers = 50              // of one domain
	maxAddresses  = 5               // of one exchanger
	lookupTimeout = 2 * time.Minute // for all lookups of one host word
)

// route returns the targets of a host word in levels. The targets of a level are
// equal; the next level is used if none of them works.
func (r *router) route(host string) ([][]*target, *failure) {
	if r.forced != "" {
		host = r.forced
	}
	if path, ok := cutPrefixFold(host, "UNIX:"); ok && r.forced != "" {
		return [][]*target{{{name: path, socket: path}}}, nil
	}
	if strings.HasPrefix(host, "[") {
		return r.literal(host)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	if strings.HasPrefix(host, "(") {
		return r.exchangers(ctx, host, listedHosts(host))
	}
	domain, err := asciiDomain(host)
	if err != nil {
		return nil, &failure{permanent: true, code: "5.1.2", diagnostic: "smtp; 553 (" + err.Error() + ")", text: err.Error()}
	}
	itself := []MX{{Host: domain}}
	if r.noMX {
		return r.exchangers(ctx, domain, itself)
	}
	list, err := r.resolver.MX(ctx, domain)
	switch {
	case errors.Is(err, ErrNotFound):
		list = itself
	case err != nil:
		return nil, dnsFailure("MX of "+domain, err)
	case len(list) == 1 && list[0].Host == "":
		return nil, &failure{permanent: true, code: "5.1.10", diagnostic: "smtp; 556 (domain " + domain + " accepts no mail)",
			text: "domain " + domain + " accepts no mail (null MX)"}
	}
	return r.exchangers(ctx, domain, list)
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// literal returns the target of an address in brackets.
func (r *router) literal(host string) ([][]*target, *failure) {
	addr, err := parseLiteral(host)
	if err != nil || !strings.HasSuffix(host, "]") {
		what := fmt.Sprintf("%q is not an address", host)
		return nil, &failure{permanent: true, code: "5.1.2", diagnostic: "smtp; 553 (" + what + ")", text: what}
	}
	if r.loop(addr) {
		return nil, loopFailure(host)
	}
	return [][]*target{{{name: "[" + addr.String() + "]", addresses: []netip.AddrPort{netip.AddrPortFrom(addr, uint16(r.port))}}}}, nil
}

// parseLiteral reads an address literal, with or without its brackets:
// [192.0.2.1], [IPv6:2001:db8::1], and ZMailer's form with a dot in place of the
// first colon. An IPv4 address in the form of IPv6 is that IPv4 address.
func parseLiteral(text string) (netip.Addr, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	if rest, ok := cutPrefixFold(text, "IPv6"); ok && rest != "" {
		text = rest[1:]
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err
}

// listedHosts reads a list that the router program wrote, ((mx1)(mx2 mx3)). Each
// group is a preference.
func listedHosts(list string) []MX {
	var found []MX
	preference := uint16(0)
	for group := range strings.SplitSeq(list, "(") {
		names := strings.Fields(strings.ReplaceAll(group, ")", " "))
		for _, name := range names {
			if domain, err := asciiDomain(name); err == nil {
				name = domain
			}
			found = append(found, MX{preference, name})
		}
		if len(names) > 0 {
			preference++
		}
	}
	return found
}

// exchangers turns a list of exchangers into targets. If this machine is in the
// list, it and those that are not preferred to it are left out, because they
// would send the mail back to us.
func (r *router) exchangers(ctx context.Context, domain string, list []MX) ([][]*target, *failure) {
	slices.SortStableFunc(list, func(a, b MX) int { return cmp.Compare(a.Preference, b.Preference) })
	if len(list) > maxExchangers {
		list = list[:maxExchangers]
	}
	var levels [][]*target
	var unanswered *failure
	at := -1
	for i, mx := range list {
		if i == 0 || mx.Preference != list[i-1].Preference {
			levels = append(levels, nil)
			at++
		}
		addresses, err := r.resolver.Addresses(ctx, mx.Host)
		switch {
		case r.isUs(mx.Host, addresses):
			levels = levels[:at]
			if !hasTarget(levels) && unanswered == nil {
				return nil, loopFailure(domain)
			}
			return usable(domain, levels, unanswered)
		case errors.Is(err, ErrNotFound):
		case err != nil:
			unanswered = dnsFailure("addresses of "+mx.Host, err)
		default:
			levels[at] = append(levels[at], r.target(mx.Host, addresses))
		}
	}
	return usable(domain, levels, unanswered)
}

// usable drops empty levels. If none is left, it returns unanswered, the failure of
// a lookup, or else a permanent failure.
func usable(domain string, levels [][]*target, unanswered *failure) ([][]*target, *failure) {
	levels = slices.DeleteFunc(levels, func(l []*target) bool { return len(l) == 0 })
	switch {
	case len(levels) > 0:
		return levels, nil
	case unanswered != nil:
		return nil, unanswered
	}
	what := "no host accepts mail for " + domain + ": it has no MX and no address, or its mail exchangers do not exist"
	return nil, &failure{permanent: true, code: "5.1.2", diagnostic: "smtp; 550 (host " + domain + " unknown)", text: what}
}

func hasTarget(levels [][]*target) bool {
	return slices.ContainsFunc(levels, func(l []*target) bool { return len(l) > 0 })
}

// isUs reports whether an exchanger is this machine, by its name or an address.
func (r *router) isUs(host string, addresses []netip.Addr) bool {
	return r.loopsCount() && (strings.EqualFold(host, r.name) || slices.ContainsFunc(addresses, r.loop))
}

// loop reports whether mail to an address would come back to us.
func (r *router) loop(addr netip.Addr) bool {
	return r.loopsCount() && (addr.IsUnspecified() || r.ours(addr))
}

// smtpPort is where this machine's SMTP server would listen.
const smtpPort = 25

// loopsCount reports whether the router checks for loops. Mail for another port or
// for a forced destination goes to another program, which is not a loop.
func (r *router) loopsCount() bool { return r.port == smtpPort && !r.localOK && r.forced == "" }

// target turns an exchanger into a target, with the addresses of the preferred
// family first.
func (r *router) target(host string, addresses []netip.Addr) *target {
	t := &target{name: host}
	for _, first := range []bool{true, false} {
		for _, a := range addresses {
			if (a.Is6() == r.ipv6First) == first && len(t.addresses) < maxAddresses {
				t.addresses = append(t.addresses, netip.AddrPortFrom(a, uint16(r.port)))
			}
		}
	}
	return t
}

func loopFailure(domain string) *failure {
	what := "mail for " + domain + " loops back to us"
	return &failure{permanent: true, code: "5.4.6", diagnostic: "smtp; 554 (" + what + ")", text: what}
}

func dnsFailure(what string, err error) *failure {
	text := "looking up the " + what + ": " + err.Error()
	return &failure{code: "4.4.3", diagnostic: "smtp; 466 (" + text + ")", text: text}
}

// ourAddresses returns a test for the addresses of this machine's interfaces.
func ourAddresses() func(netip.Addr) bool {
	known := map[netip.Addr]bool{}
	list, _ := net.InterfaceAddrs() // without them only loopback is recognised
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			known[prefix.Addr().Unmap()] = true
		}
	}
	return func(a netip.Addr) bool { return a.IsLoopback() || known[a.Unmap().WithZone("")] }
}
