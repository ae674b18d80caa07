package smtp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// Where mail goes, and why not (RFC 5321 section 5). Our own address is
// 192.0.2.99, our name mta.example.
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
		{"two.example", "x", "5.1.2 no host accepts mail for two.example: it has no MX and no address, or they do not exist"},
		{"plain.example", "", "plain.example 192.0.2.4"},
		{"plain.example", "x", "plain.example 192.0.2.4"},
		{"null.example", "", "5.1.10 domain null.example accepts no mail (null MX)"},
		{"gone.example", "", "5.1.2 no host accepts mail for gone.example: it has no MX and no address, or they do not exist"},
		{"none.example", "", "5.1.2 no host accepts mail for none.example: it has no MX and no address, or they do not exist"},
		{"half.example", "", "b.example 192.0.2.2"},
		{"slow.example", "", "4.4.3 looking up the MX of slow.example: no answer"},
		{"lame.example", "", "4.4.3 looking up the addresses of mute.example: no answer"},
		{"part.example", "", "b.example 192.0.2.2"},
		{"bücher.example", "", "a.example 192.0.2.1 2001:db8::1"},

		// What is not better than ourselves would send it back.
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
		{"-", "", "5.1.2 no host accepts mail for -: it has no MX and no address, or they do not exist"},
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

// The examples of RFC 3492 section 7.1 that need no preparation, and spellings
// that mapping and normalisation make one.
func TestDomainsBeyondASCII(t *testing.T) {
	for in, want := range map[string]string{
		"Bücher.example": "xn--bcher-kva.example",
		"他们为什么不说中文":      "xn--ihqwcrb4cv8a8dqg056pqjye",
		"почемужеонинеговорятпорусски": "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l",
		"3年b組金八先生":                   "xn--3b-ww4c5e180e575a65lsy2b",
		"ひとつ屋根の下2":                   "xn--2-u9tlzr9756bt3uc0v",
		"example.ORG.":               "example.org",
		"bu\u0308cher.example":       "xn--bcher-kva.example", // a letter and its accent
		"BU\u0308CHER.example":       "xn--bcher-kva.example",
		"ｂücher。example":             "xn--bcher-kva.example", // wide forms
		"XN--Bcher-KVA.example":      "xn--bcher-kva.example",
		"faß.example":                "xn--fa-hia.example", // IDNA2008 keeps it apart from fass
		"_dmarc.a--b.bücher.example": "_dmarc.a--b.xn--bcher-kva.example",
		"_mta_sts.example":           "_mta_sts.example",
	} {
		if got, err := asciiDomain(in); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "a b", "a@b", strings.Repeat("a", 64), strings.Repeat("a.", 130), "\xff.example", "(x",
		"a\u200bb\u202e.example", "bü cher.example", "ü\uff08x.example", "a\x7f.example", "bü..example"} {
		if got, err := asciiDomain(in); err == nil {
			t.Errorf("%q is %q", in, got)
		}
	}
}

// zone serves records on loopback.
func zoneServer(t *testing.T, records string) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.Rcode, m.RecursionAvailable = dns.RcodeNameError, true
		name := q.Question[0].Name
		for line := range strings.Lines(records) {
			if !strings.HasPrefix(line, name+" ") {
				continue
			}
			m.Rcode = dns.RcodeSuccess
			if _, of, lame := strings.Cut(line, "LAME "); lame && dns.StringToType[strings.TrimSpace(of)] != q.Question[0].Qtype {
				continue
			}
			if strings.Contains(line, "LAME") {
				m.Rcode = dns.RcodeServerFailure
				break
			}
			rr, err := dns.NewRR(line)
			if err != nil {
				panic(err)
			}
			if kind := rr.Header().Rrtype; kind == q.Question[0].Qtype {
				m.Answer = append(m.Answer, rr)
			} else if kind == dns.TypeCNAME {
				m.Answer = append(m.Answer, rr)
				name = rr.(*dns.CNAME).Target
			}
		}
		_ = w.WriteMsg(m)
	})}
	ready := make(chan bool)
	server.NotifyStartedFunc = func() { close(ready) }
	stopped := make(chan bool)
	go func() { _ = server.ActivateAndServe(); close(stopped) }()
	<-ready
	t.Cleanup(func() { _ = server.Shutdown(); <-stopped })
	return pc.LocalAddr().String()
}

func TestResolver(t *testing.T) {
	r := NewResolver(zoneServer(t, `a.example. 60 IN MX 10 MX1.a.example.
a.example. 60 IN MX 20 mx2.a.example.
null.example. 60 IN MX 0 .
alias.example. 60 IN CNAME b.example.
b.example. 60 IN MX 5 mx1.a.example.
mx1.a.example. 60 IN A 192.0.2.1
mx1.a.example. 60 IN AAAA 2001:db8::1
only.example. 60 IN A 192.0.2.2
broken.example. LAME
six.example. 60 IN A 192.0.2.3
six.example. LAME AAAA
four.example. 60 IN MX 10 x.example.
four.example. LAME A
`))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mx := func(domain string) string {
		list, err := r.MX(ctx, domain)
		if err != nil {
			return err.Error()
		}
		var words []string
		for _, m := range list {
			words = append(words, m.Host)
		}
		return strings.Join(words, " ")
	}
	for domain, want := range map[string]string{
		"a.example": "mx1.a.example mx2.a.example", "null.example": "", "alias.example": "mx1.a.example",
		"only.example": "not found", "nowhere.example": "not found", "broken.example": "server misbehaving",
	} {
		if got := mx(domain); got != want {
			t.Errorf("MX of %s: %q, want %q", domain, got, want)
		}
	}
	if got, err := r.Addresses(ctx, "mx1.a.example"); err != nil || len(got) != 2 {
		t.Errorf("addresses %v %v", got, err)
	}
	if got, err := r.Addresses(ctx, "six.example"); err != nil || len(got) != 1 {
		t.Errorf("addresses of one that knows no AAAA: %v %v", got, err)
	}
	if _, err := r.Addresses(ctx, "four.example"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("addresses of one that may have an A: %v", err)
	}
	if _, err := r.Addresses(ctx, "mx2.a.example"); !errors.Is(err, ErrNotFound) {
		t.Errorf("addresses of none: %v", err)
	}
	if _, err := r.Addresses(ctx, "broken.example"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("addresses of broken: %v", err)
	}
}

// counting counts the questions that get through.
type counting struct {
	names
	asked int
}

func (c *counting) MX(ctx context.Context, domain string) ([]MX, error) {
	c.asked++
	return c.names.MX(ctx, domain)
}

func TestAnswersAreKeptAndFailuresAreNot(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	ask := &counting{names: names{"mx a.example": "10 mx.example", "mx broken.example": "?"}}
	c := &cache{ask: ask, now: func() time.Time { return now },
		mx: map[string]cached[[]MX]{}, addresses: map[string]cached[[]netip.Addr]{}}
	for _, step := range []struct {
		domain string
		pass   time.Duration
		asked  int
	}{{"a.example", 0, 1}, {"a.example", cacheTime - 1, 1}, {"a.example", 1, 2},
		{"none.example", 0, 3}, {"none.example", 0, 3}, {"broken.example", 0, 4}, {"broken.example", 0, 5}} {
		now = now.Add(step.pass)
		_, _ = c.MX(context.Background(), step.domain)
		if ask.asked != step.asked {
			t.Errorf("%s: asked %d times, want %d", step.domain, ask.asked, step.asked)
		}
	}
}
