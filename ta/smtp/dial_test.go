package smtp

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"zsched/ta/smtp/smtptest"
)

func TestLocalAddresses(t *testing.T) {
	zone := names{"a out.example": "192.0.2.5, 2001:db8::5"}
	for ident, want := range map[string]string{
		"192.0.2.1": "[192.0.2.1]", "[192.0.2.1]": "[192.0.2.1]", "2001:db8::1": "[2001:db8::1]",
		"[IPv6:2001:db8::1]": "[2001:db8::1]", "OUT.example.": "[192.0.2.5 2001:db8::5]",
		"none.example": `local address "none.example": not found`, "iface:none0": `local interface "none0": `,
	} {
		found, err := ParseLocal(ident, zone)
		got := fmt.Sprint(found)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", ident, got, want)
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 {
			continue
		}
		found, err := ParseLocal("iface:"+i.Name, zone)
		if err != nil || len(found) == 0 || !found[0].IsLoopback() {
			t.Errorf("%s: %v %v", i.Name, found, err)
		}
	}
}

func TestDialFrom(t *testing.T) {
	for _, c := range []struct {
		local   string
		said    string
		refused bool
	}{
		{local: "127.0.0.5", said: "127.0.0.5:"},
		{local: "2001:db8::1", refused: true, said: "no local address of that family"},
		{said: "127.0.0.1:"},
	} {
		p := start(t, smtptest.Options{})
		d := Dialer{}
		if c.local != "" {
			var err error
			if d.Local, err = ParseLocal(c.local, nil); err != nil {
				t.Fatal(err)
			}
		}
		nc, err := d.dial("tcp", p.Addr, DefaultTimeouts().Connect)
		if c.refused {
			if err == nil || err.Error() != c.said {
				t.Errorf("from %s: %v", c.local, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("from %s: %v", c.local, err)
			continue
		}
		from := nc.LocalAddr().(*net.TCPAddr)
		if !strings.HasPrefix(from.String(), c.said) {
			t.Errorf("from %s: %v", c.local, from)
		}
		_ = nc.Close()
	}
}
