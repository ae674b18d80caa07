package server

// The auth file: addresses from which a user may log in.

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// addressList is the last field of a line of the auth file: networks, each
// [!]"["address"]"["/"width], with blanks or commas between them. The first network that
// contains the peer decides. A field that is blank accepts every address, and one that
// cannot be read accepts none.
type addressList struct {
	all      bool
	networks []network
}

type network struct {
	netip.Prefix
	not bool // "!" precedes it
}

var networkPattern = regexp.MustCompile(`^[ \t,\r]*(! *)?\[(?:([Ii][Pp][Vv]6)[:.])?([^\]]*)\](?:/(\d+))?[ \t,\r]*`)

// parseAddresses reads an address list.
func parseAddresses(s string) (list addressList, err error) {
	if strings.Trim(s, " ") == "" {
		return addressList{all: true}, nil
	}
	for rest := s; rest != ""; {
		part := networkPattern.FindStringSubmatch(rest)
		if part == nil {
			return addressList{}, fmt.Errorf("%q matches no address: an address must be in brackets, such as [1.2.3.4]/32", rest)
		}
		rest = rest[len(part[0]):]
		n := network{not: part[1] != ""}
		if n.Prefix, err = parseNetwork(part[2] != "", part[3], part[4]); err != nil {
			return addressList{}, fmt.Errorf("%q matches no address: %w", strings.TrimSpace(part[0]), err)
		}
		list.networks = append(list.networks, n)
	}
	return list, nil
}

// parseNetwork reads an address of IPv4, or IPv6 if six is true, and the width of the network.
// Without a width it is a single address.
func parseNetwork(six bool, address, width string) (netip.Prefix, error) {
	addr, err := netip.ParseAddr(address)
	if err != nil || addr.Zone() != "" || addr.Is4() == six {
		return netip.Prefix{}, errors.New("not an address such as [1.2.3.4] or [IPv6:2001:db8::1]")
	}
	bits := addr.BitLen()
	if width != "" {
		if bits, err = strconv.Atoi(width); err != nil || bits > addr.BitLen() {
			return netip.Prefix{}, fmt.Errorf("the width must be from 0 to %d", addr.BitLen())
		}
	}
	return netip.PrefixFrom(addr, bits).Masked(), nil
}

// accepts reports whether a peer may log in. An IPv4-mapped IPv6 address counts as
// IPv4.
func (l *addressList) accepts(peer netip.Addr) bool {
	peer = peer.Unmap().WithZone("")
	for _, n := range l.networks {
		if n.Contains(peer) {
			return !n.not
		}
	}
	return l.all
}
