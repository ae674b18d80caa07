package server

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// addressList is the last field of a line of the auth file: networks, each
// [!]"["address"]"["/"width]. The first network that contains the peer decides.
// A field that is empty or blank accepts every address.
//
// A network that cannot be read matches no address. With a "!" before it, it
// refuses every address that no earlier network matched, because it is unknown
// which addresses it was meant to refuse.
type addressList struct {
	all      bool
	networks []network
}

type network struct {
	prefix netip.Prefix // invalid: it could not be read
	not    bool         // "!" precedes it
}

// parseAddresses reads an address list. problems says what could not be read;
// the list can be used all the same.
func parseAddresses(s string) (list addressList, problems []error) {
	if strings.Trim(s, " ") == "" {
		return addressList{all: true}, nil
	}
	for i := 0; i < len(s); i++ {
		var n network
		if s[i] == '!' {
			n.not = true
			i += len(s[i+1:]) - len(strings.TrimLeft(s[i+1:], " ")) + 1
		}
		var text string
		if i < len(s) && s[i] == '[' {
			text = cutNetwork(s[i:])
		} else if !n.not {
			continue
		}
		var err error
		if n.prefix, err = parseNetwork(text); err != nil {
			problems = append(problems, fmt.Errorf("%q: %w", text, err))
		}
		list.networks = append(list.networks, n)
		i += max(0, len(text)-1)
	}
	if len(list.networks) == 0 {
		problems = append(problems, fmt.Errorf("%q matches no address: an address must be in brackets", s))
	}
	return list, problems
}

// cutNetwork returns the "[...]" at the front of s, and "/" and digits after it.
func cutNetwork(s string) string {
	end := strings.IndexByte(s, ']')
	if end < 0 {
		return s
	}
	end++
	if end < len(s) && s[end] == '/' {
		end++
		for end < len(s) && '0' <= s[end] && s[end] <= '9' {
			end++
		}
	}
	return s[:end]
}

// parseNetwork reads [a.b.c.d]/n, [IPv6:addr]/n or [IPv6.addr]/n. Without /n it is
// a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	inside, width, ok := strings.Cut(strings.TrimPrefix(text, "["), "]")
	if !ok {
		return netip.Prefix{}, errors.New("a bracket is not closed")
	}
	six := false
	if len(inside) >= 5 && strings.EqualFold(inside[:4], "ipv6") && (inside[4] == ':' || inside[4] == '.') {
		six = true
		inside = inside[5:]
	}
	addr, err := netip.ParseAddr(inside)
	if err != nil || addr.Zone() != "" || addr.Is4() == six {
		return netip.Prefix{}, errors.New("not an address such as [1.2.3.4] or [IPv6:2001:db8::1]")
	}
	bits := addr.BitLen()
	if digits, slash := strings.CutPrefix(width, "/"); slash {
		if bits, err = strconv.Atoi(digits); err != nil || bits > addr.BitLen() {
			return netip.Prefix{}, fmt.Errorf("the width must be from 0 to %d", addr.BitLen())
		}
	}
	return netip.PrefixFrom(addr, bits).Masked(), nil
}

// accepts reports whether a peer may log in. An IPv4-mapped IPv6 address counts as
// IPv4.
func (l *addressList) accepts(peer netip.Addr) bool {
	if l.all {
		return true
	}
	peer = peer.Unmap().WithZone("")
	for _, n := range l.networks {
		if !n.prefix.IsValid() {
			if n.not {
				return false
			}
			continue
		}
		if n.prefix.Contains(peer) {
			return !n.not
		}
	}
	return false
}
