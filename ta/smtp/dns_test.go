package smtp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// The name localhost is in the hosts file of every machine.
func TestResolverReadsTheHostsFile(t *testing.T) {
	got, err := NewResolver("").Addresses(context.Background(), "localhost")
	if err != nil || !slices.ContainsFunc(got, netip.Addr.IsLoopback) {
		t.Errorf("addresses of localhost are %v, %v", got, err)
	}
}

func TestResolverWithAServerAsksNothingElse(t *testing.T) {
	r := NewResolver("127.0.0.1:1")
	if got, err := r.Addresses(context.Background(), "localhost"); err == nil || err == ErrNotFound {
		t.Errorf("addresses of localhost are %v, %v, though the server does not answer", got, err)
	}
}

// zoneServer serves records on loopback, and returns its address.
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
			if strings.Contains(line, "REFUSED") {
				m.Rcode = dns.RcodeRefused
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
	server := zoneServer(t, `a.example. 60 IN MX 10 MX1.a.example.
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
shy.example. REFUSED
`)
	r := NewResolver(server)
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
		"only.example": "not found", "nowhere.example": "not found", "broken.example": "server " + server + ": SERVFAIL",
		"shy.example": "server " + server + ": an error code, such as REFUSED",
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
