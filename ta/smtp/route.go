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

// target is one place where mail can be handed over: a mail exchanger.
type target struct {
	// name is the host's name in lower case, an address in brackets, or the
	// path of a socket. It is what limits, TLS and the destination database
	// know the place by.
	name      string
	addresses []netip.AddrPort // in the order to try; none for a socket
	socket    string           // path of a unix socket, or ""
}

// failure is why mail cannot go to a destination, or not now.
type failure struct {
	permanent  bool
	code       string // enhanced status code
	diagnostic string // for notices
	policy     bool   // of those who ask for TLS or a password, not of all
	remote     string // who said so, or ""
	text       string // for people; a transcript begins with CR
}

func (f *failure) Error() string { return f.text }

// router finds the targets of a host word (RFC 5321 section 5).
type router struct {
	resolver  Resolver
	port      int
	forced    string // all mail goes there instead
	noMX      bool   // addresses only
	localOK   bool   // our own addresses are no loop
	ipv6First bool
	name      string                // our own
	ours      func(netip.Addr) bool // an address of this machine
}

// So many mail exchangers of a domain are looked at, and so many addresses of
// each.
const (
	maxHosts     = 50
	maxAddresses = 5
)

// lookUpTime bounds all questions for one host word.
const lookUpTime = 2 * time.Minute

// route gives the targets in levels: those of the first are alike, the next
// ones are for when none of them works.
func (r *router) route(host string) ([][]*target, *failure) {
	ctx, cancel := context.WithTimeout(context.Background(), lookUpTime)
	defer cancel()
	if r.forced != "" {
		host = r.forced
	}
	if path, ok := cutPrefixFold(host, "UNIX:"); ok && r.forced != "" {
		return [][]*target{{{name: path, socket: path}}}, nil
	}
	switch {
	case strings.HasPrefix(host, "["):
		return r.literal(host)
	case strings.HasPrefix(host, "("):
		return r.hosts(ctx, host, listedHosts(host))
	}
	domain, err := asciiDomain(host)
	if err != nil {
		return nil, &failure{permanent: true, code: "5.1.2", diagnostic: "smtp; 553 (" + err.Error() + ")", text: err.Error()}
	}
	self := []MX{{Host: domain}}
	if r.noMX {
		return r.hosts(ctx, domain, self)
	}
	list, lookUp := r.resolver.MX(ctx, domain)
	switch {
	case errors.Is(lookUp, ErrNotFound):
		list = self
	case lookUp != nil:
		return nil, dnsFailure("MX of "+domain, lookUp)
	case len(list) == 1 && list[0].Host == "":
		return nil, &failure{permanent: true, code: "5.1.10", diagnostic: "smtp; 556 (domain " + domain + " accepts no mail)",
			text: "domain " + domain + " accepts no mail (null MX)"}
	}
	return r.hosts(ctx, domain, list)
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix) {
		return s[len(prefix):], true
	}
	return s, false
}

// literal reads an address in brackets: [192.0.2.1], [IPv6:2001:db8::1], and
// with a dot in place of the first colon, as ZMailer has it.
func (r *router) literal(host string) ([][]*target, *failure) {
	text := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if rest, ok := cutPrefixFold(text, "IPv6"); ok && rest != "" {
		text = rest[1:]
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || !strings.HasSuffix(host, "]") {
		what := fmt.Sprintf("%q is not an address", host)
		return nil, &failure{permanent: true, code: "5.1.2", diagnostic: "smtp; 553 (" + what + ")", text: what}
	}
	if r.loop(addr) {
		return nil, loops(host)
	}
	return [][]*target{{{name: "[" + addr.String() + "]", addresses: []netip.AddrPort{netip.AddrPortFrom(addr, uint16(r.port))}}}}, nil
}

// listedHosts reads a list that the router wrote, ((mx1)(mx2 mx3)): each group
// is a preference.
func listedHosts(list string) []MX {
	var found []MX
	level := uint16(0)
	for group := range strings.SplitSeq(list, "(") {
		names := strings.Fields(strings.ReplaceAll(group, ")", " "))
		for _, name := range names {
			found = append(found, MX{level, strings.ToLower(strings.TrimSuffix(name, "."))})
		}
		if len(names) > 0 {
			level++
		}
	}
	return found
}

// hosts makes targets of a list of exchangers. Where we are among them, we and
// all that are not better are no targets: they would send it to us again.
func (r *router) hosts(ctx context.Context, domain string, list []MX) ([][]*target, *failure) {
	slices.SortStableFunc(list, func(a, b MX) int { return cmp.Compare(a.Preference, b.Preference) })
	if len(list) > maxHosts {
		list = list[:maxHosts]
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
				return nil, loops(domain)
			}
			return r.usable(domain, levels, unanswered)
		case errors.Is(err, ErrNotFound):
		case err != nil:
			unanswered = dnsFailure("addresses of "+mx.Host, err)
		default:
			levels[at] = append(levels[at], r.target(mx.Host, addresses))
		}
	}
	return r.usable(domain, levels, unanswered)
}

// usable drops empty levels. With none left the DNS has either said so, which
// is for good, or not said enough.
func (r *router) usable(domain string, levels [][]*target, unanswered *failure) ([][]*target, *failure) {
	levels = slices.DeleteFunc(levels, func(l []*target) bool { return len(l) == 0 })
	switch {
	case len(levels) > 0:
		return levels, nil
	case unanswered != nil:
		return nil, unanswered
	}
	what := "no host takes mail for " + domain + ": it has no MX and no address, or they do not exist"
	return nil, &failure{permanent: true, code: "5.1.2", diagnostic: "smtp; 550 (host " + domain + " unknown)", text: what}
}

func hasTarget(levels [][]*target) bool {
	return slices.ContainsFunc(levels, func(l []*target) bool { return len(l) > 0 })
}

// isUs says that an exchanger is this machine, by its name or by an address.
func (r *router) isUs(host string, addresses []netip.Addr) bool {
	if r.port != smtpPort || r.localOK || r.forced != "" {
		return false
	}
	return strings.EqualFold(host, r.name) || slices.ContainsFunc(addresses, r.loop)
}

// smtpPort is where we ourselves would listen: mail for another port or a
// forced destination goes to another program and is no loop.
const smtpPort = 25

func (r *router) loop(addr netip.Addr) bool {
	return r.port == smtpPort && !r.localOK && r.forced == "" && (addr.IsUnspecified() || r.ours(addr))
}

// target puts the addresses of the family that goes first to the front.
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

func loops(domain string) *failure {
	return &failure{permanent: true, code: "5.4.6", diagnostic: "smtp; 554 (mail for " + domain + " loops back to us)",
		text: "mail for " + domain + " loops back to us"}
}

func dnsFailure(what string, err error) *failure {
	text := "looking up the " + what + ": " + err.Error()
	return &failure{code: "4.4.3", diagnostic: "smtp; 466 (" + text + ")", text: text}
}

// ourAddresses tells the addresses of this machine's interfaces.
func ourAddresses() func(netip.Addr) bool {
	known := map[netip.Addr]bool{}
	list, _ := net.InterfaceAddrs() // none known: none recognised
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			known[prefix.Addr().Unmap()] = true
		}
	}
	return func(a netip.Addr) bool { return a.IsLoopback() || known[a.Unmap().WithZone("")] }
}

// place is the target at an address, for notices: "dns; mx.example.net
// (192.0.2.1)".
func (t *target) place(address string) string {
	switch {
	case t.socket != "":
		return "x-unix; " + t.socket
	case address == "":
		return "dns; " + t.name
	}
	return "dns; " + t.name + " (" + address + ")"
}
