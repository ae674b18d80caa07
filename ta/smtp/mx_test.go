package smtp

import (
	"net/netip"
	"strings"
	"testing"
)

// The targets of a host word, or the failure (RFC 5321 section 5). Our own address is
// 192.0.2.99, and our name is mta.example.
func TestRoutes(t *testing.T) {
	zone := names{
		"mx two.example":           "20 b.example, 10 a.example, 20 c.example",
		"a a.example":              "192.0.2.1, 2001:db8::1",
		"a b.example":              "192.0.2.2",
		"a c.example":              "2001:db8::3, 192.0.2.3",
		"a plain.example":          "192.0.2.4",
		"mx null.example":          "0 .",
		"mx gone.example":          "10 nowhere.example, 20 nobody.example",
		"mx half.example":          "10 nowhere.example, 20 b.example",
		"mx slow.example":          "?",
		"mx lame.example":          "10 mute.example",
		"mx part.example":          "10 mute.example, 20 b.example",
		"a mute.example":           "?",
		"mx us.example":            "10 a.example, 20 mta.example, 20 b.example, 30 c.example",
		"mx addr.example":          "10 a.example, 20 alias.example, 30 c.example",
		"a alias.example":          "192.0.2.99",
		"mx first.example":         "10 mta.example, 20 a.example",
		"mx limbo.example":         "10 mute.example, 20 mta.example",
		"a mta.example":            "192.0.2.99",
		"a self.example":           "192.0.2.99",
		"mx xn--bcher-kva.example": "10 a.example",
		"a xn--bcher-kva.example":  "192.0.2.8",
	}
	const aThenBC = "a.example 192.0.2.1 2001:db8::1; b.example 192.0.2.2, c.example 192.0.2.3 2001:db8::3"
	for _, c := range []struct{ host, options, want string }{
		{"two.example", "", aThenBC},
		{"TWO.example.", "", aThenBC},
		{"two.example", "6", "a.example 2001:db8::1 192.0.2.1; b.example 192.0.2.2, c.example 2001:db8::3 192.0.2.3"},
		{"two.example", "x", "5.1.2 no host accepts mail for two.example: it has no MX and no address, or its mail exchangers do not exist"},
		{"plain.example", "", "plain.example 192.0.2.4"},
		{"plain.example", "x", "plain.example 192.0.2.4"},
		{"null.example", "", "5.1.10 domain null.example accepts no mail (null MX)"},
		{"gone.example", "", "5.1.2 no host accepts mail for gone.example: it has no MX and no address, or its mail exchangers do not exist"},
		{"none.example", "", "5.1.2 no host accepts mail for none.example: it has no MX and no address, or its mail exchangers do not exist"},
		{"half.example", "", "b.example 192.0.2.2"},
		{"slow.example", "", "4.4.3 looking up the MX of slow.example: no answer"},
		{"lame.example", "", "4.4.3 looking up the addresses of mute.example: no answer"},
		{"part.example", "", "b.example 192.0.2.2"},
		{"bücher.example", "", "a.example 192.0.2.1 2001:db8::1"},

		// Exchangers that are not preferred to us would send the mail back.
		{"us.example", "", "a.example 192.0.2.1 2001:db8::1"},
		{"addr.example", "", "a.example 192.0.2.1 2001:db8::1"},
		{"first.example", "", "5.4.6 mail for first.example loops back to us"},
		{"limbo.example", "", "4.4.3 looking up the addresses of mute.example: no answer"},
		{"self.example", "", "5.4.6 mail for self.example loops back to us"},
		{"self.example", "x", "5.4.6 mail for self.example loops back to us"},
		{"self.example", "xX", "self.example 192.0.2.99"},
		{"self.example", "p", "self.example 192.0.2.99"},
		{"first.example", "p", "mta.example 192.0.2.99; a.example 192.0.2.1 2001:db8::1"},
		{"[192.0.2.99]", "", "5.4.6 mail for [192.0.2.99] loops back to us"},
		{"[IPv6:::ffff:192.0.2.99]", "", "5.4.6 mail for [IPv6:::ffff:192.0.2.99] loops back to us"},
		{"[IPv6:::ffff:0.0.0.0]", "", "5.4.6 mail for [IPv6:::ffff:0.0.0.0] loops back to us"},
		{"[0.0.0.0]", "", "5.4.6 mail for [0.0.0.0] loops back to us"},

		{"[192.0.2.7]", "", "[192.0.2.7] 192.0.2.7"},
		{"[IPv6:2001:db8::7]", "", "[2001:db8::7] 2001:db8::7"},
		{"[ipv6.2001:db8::7]", "", "[2001:db8::7] 2001:db8::7"},
		{"[192.0.2.7", "", `5.1.2 "[192.0.2.7" is not an address`},
		{"[mx.example]", "", `5.1.2 "[mx.example]" is not an address`},
		{"a..b", "", `5.1.2 "a..b" is not a domain`},
		{"-", "", "5.1.2 no host accepts mail for -: it has no MX and no address, or its mail exchangers do not exist"},
		{"((a.example)(b.example c.example))", "", aThenBC},
		{"((A.example.)(b.EXAMPLE c.example))", "", aThenBC},
		{"((bücher.example))", "", "xn--bcher-kva.example 192.0.2.8"},

		{"any.example", "Ftwo.example", aThenBC},
		{"any.example", "F[192.0.2.7]", "[192.0.2.7] 192.0.2.7"},
		{"any.example", "Fself.example", "self.example 192.0.2.99"},
		{"any.example", "FUNIX:/run/lmtp", "/run/lmtp"},
		{"UNIX:/run/lmtp", "", `5.1.2 "UNIX:/run/lmtp" is not a domain`},
	} {
		r := router{resolver: zone, port: 25, name: "mta.example",
			ours: func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.99") }}
		options, forced, _ := strings.Cut(c.options, "F")
		r.forced, r.ipv6First = forced, strings.Contains(options, "6")
		r.noMX, r.localOK = strings.Contains(options, "x"), strings.Contains(options, "X")
		if strings.Contains(options, "p") {
			r.port = 2525
		}
		levels, failed := r.route(c.host)
		var got []string
		for _, l := range levels {
			var ts []string
			for _, t := range l {
				text := t.name
				for _, a := range t.addresses {
					text += " " + a.Addr().String()
				}
				ts = append(ts, text)
			}
			got = append(got, strings.Join(ts, ", "))
		}
		text := strings.Join(got, "; ")
		if failed != nil {
			text = failed.code + " " + failed.Error()
			if failed.permanent != (failed.code[0] == '5') {
				t.Errorf("%s: permanent %v with %s", c.host, failed.permanent, failed.code)
			}
		}
		if text != c.want {
			t.Errorf("%s, options %q: %s, want %s", c.host, c.options, text, c.want)
		}
	}
}

func TestOurAddresses(t *testing.T) {
	ours := ourAddresses()
	for text, want := range map[string]bool{"127.0.0.1": true, "127.9.9.9": true, "::1": true, "192.0.2.1": false} {
		if got := ours(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is ours: %v", text, got)
		}
	}
}
