package mailbox

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"zsched/ta"
)

func TestPlaces(t *testing.T) {
	bob := &ta.Account{Name: "bob", Home: "/home/bob", FullName: "Bob Builder"}
	for _, c := range []struct {
		place   Place
		address string
		path    string
		home    bool
	}{
		{Place{Path: "/m"}, "bob", "/m/bob", false},
		{Place{Path: "/m/"}, "bob", "/m/bob", false},
		{Place{Path: "/m", Letters: 1}, "bob", "/m/b/bob", false},
		{Place{Path: "/m", Letters: 2}, "bob", "/m/b/o/bob", false},
		{Place{Path: "/m", Letters: 9}, "bob", "/m/b/o/b/bob", false},
		{Place{Path: "/m", Hashes: 1}, "bob", "/m/A/bob", false},
		{Place{Path: "/m", Hashes: 2}, "bob", "/m/X/A/bob", false},
		{Place{Path: "/m/%u"}, "bob@X.org", "/m/bob", false},
		{Place{Path: "/m/%u/"}, "bob", "/m/bob/", false},
		{Place{Path: "%h/Maildir/"}, "bob", "/home/bob/Maildir/", true},
		{Place{Path: "/m/%D/%d/%a"}, "bob@X.org", "/m/x.org/x/bob@X.org", false},
		{Place{Path: "/m/%D/%u"}, "bob", "/m/defaultdomain/bob", false},
		{Place{Path: "/m/%x/%x/%u"}, "bob", "/m/A/X/bob", false},
		{Place{Path: "/m/%U/100%%"}, "bob", "/m/Bob Builder/100%", false},
		{Place{Path: "/m", Canonical: true}, "BOB", "/m/bob", false},
		{Place{Path: "/m"}, "BOB", "/m/BOB", false},
	} {
		if err := c.place.check(); err != nil {
			t.Errorf("%+v: %v", c.place, err)
		}
		path, home, err := c.place.find(target{address: parseAddress(c.address), Account: bob})
		if path != c.path || home != c.home || err != nil {
			t.Errorf("%+v, %s: %q, %t, %v; want %q", c.place, c.address, path, home, err, c.path)
		}
	}
}

func TestAddressesDoNotLeadElsewhere(t *testing.T) {
	place := Place{Path: "/m/%D/%u"}
	for _, domain := range []string{"..", ".", "a/b", "../../etc"} {
		path, _, err := place.find(target{address: address{name: "bob", domain: domain}, Account: &ta.Account{Name: "bob"}})
		if err == nil {
			t.Errorf("domain %q leads to %q", domain, path)
		}
	}
	for _, home := range []string{"", "home", "../home"} {
		path, _, err := (&Place{Path: "%h/box"}).find(target{Account: &ta.Account{Name: "bob", Home: home}})
		if err == nil {
			t.Errorf("the home %q leads to %q", home, path)
		}
	}
}

func TestPlacesAreChecked(t *testing.T) {
	for _, p := range []Place{
		{Path: "mail"}, {Path: "/m/%"}, {Path: "/m/%q"}, {Path: "/m", Hashes: 3}, {Path: "/m", Letters: 1, Hashes: 1},
		{Path: "/m/%u", Letters: 1}, {Path: "x%h"},
	} {
		if p.check() == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}

// The hashes as they are described: Weinberger's with a branch, and ZMailer's
// checksum by its table of 128.
func TestHashesAreTheOldOnes(t *testing.T) {
	var table [128]uint32
	for i := range table {
		for bit := range 7 {
			if i&(1<<bit) != 0 {
				table[i] ^= 0x48000000 >> bit
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "name")
		var h, crc uint32
		for i := range len(s) {
			h = h<<4 + uint32(s[i])
			if top := h & 0xf0000000; top != 0 {
				h ^= top >> 24
				h &^= top
			}
			crc = crc>>7 ^ table[(crc^uint32(s[i]))&0x7f]
		}
		if pjw(s) != h || crc31(s) != crc {
			t.Errorf("%q: %x %x, want %x %x", s, pjw(s), crc31(s), h, crc)
		}
	})
	if strings.Contains(letter26(25)+letter26(26), "[") || letter26(25) != "Z" {
		t.Error("letters beyond Z")
	}
}
