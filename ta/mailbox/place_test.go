package mailbox

import (
	"testing"

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
		{Place{Path: "/m/%u"}, "bob@X.org", "/m/bob", false},
		{Place{Path: "/m/%u/"}, "bob", "/m/bob/", false},
		{Place{Path: "%h/Maildir/"}, "bob", "/home/bob/Maildir/", true},
		{Place{Path: "/m/%D/%d/%a"}, "bob@X.org", "/m/x.org/x/bob@X.org", false},
		{Place{Path: "/m/%D/%u"}, "bob", "/m/defaultdomain/bob", false},
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
		{Path: "mail"}, {Path: "/m/%"}, {Path: "/m/%q"}, {Path: "x%h"}, {Path: "/m/%x/%u"}, {Path: "/m/%X/%u"},
	} {
		if p.check() == nil {
			t.Errorf("%+v is accepted", p)
		}
	}
}
