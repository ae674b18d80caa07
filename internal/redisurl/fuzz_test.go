package redisurl

import (
	"net"
	"testing"
)

// FuzzParse: an address that is accepted has a host and a port.
func FuzzParse(f *testing.F) {
	f.Add("redis://user:pass%2Fword@10.0.0.1:6379/0?master_name=m&addr=[::1]&ttl=5s")
	f.Add("rediss://a@b@[fe80::1%25eth0]:x/-1?ttl=1d&ttl")
	f.Add("redis://,:@/?;")
	f.Add("redis://]")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		Mask(text)
		if err != nil {
			return
		}
		for _, host := range a.Addrs {
			if name, port, err := net.SplitHostPort(host); name == "" || port == "" || err != nil {
				t.Errorf("%q has the host %q: %v", text, host, err)
			}
		}
		if len(a.Addrs) == 0 || a.DB < 0 {
			t.Errorf("%q is read as %+v", text, a)
		}
	})
}
