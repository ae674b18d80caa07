package server

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zsched/mailq"
)

func TestWrappers(t *testing.T) {
	const peers = "127.0.0.1 ::1 1.2.3.4 1.2.9.9 2001:db8::5"
	tests := []struct{ allow, deny, admits string }{
		{"", "", "127.0.0.1 ::1"},
		// As in the manual.
		{"mailq : ALL@1.2.3.4\nsmtp-receive: ALL@ALL\n", "ALL : ALL@ALL\n", "1.2.3.4"},
		{"mailq: ALL", "", peers},
		{"ALL: ALL", "ALL: ALL", peers},
		{"MailQ: all", "", peers},
		{"", "ALL: ALL", ""},
		{"", "mailq: 127.0.0.1", "::1"},
		{"smtpd: ALL", "sshd: ALL", "127.0.0.1 ::1"},
		{"mailq: 1.2.3.", "", "127.0.0.1 ::1 1.2.3.4"},
		{"mailq: 1.2.", "ALL: ALL", "1.2.3.4 1.2.9.9"},
		{"mailq: 1.2.0.0/255.255.0.0", "ALL: ALL", "1.2.3.4 1.2.9.9"},
		{"mailq: 1.2.3.0/24", "ALL: ALL", "1.2.3.4"},
		{"mailq: [2001:db8::]/32", "ALL: ALL", "2001:db8::5"},
		{"mailq: [2001:db8::/32], 127.0.0.1", "ALL: ALL", "127.0.0.1 2001:db8::5"},
		{"mailq: [::1]", "ALL: ALL", "::1"},
		{"mailq: localhost", "ALL: ALL", "127.0.0.1 ::1"},
		{"sshd, mailq : 1.2.3.4 1.2.9.9", "ALL: ALL", "1.2.3.4 1.2.9.9"},
		{"# mailq: ALL\n\n", "", "127.0.0.1 ::1"},
		{"mailq: 1.2.3.4, \\\n 1.2.9.9", "ALL: ALL", "1.2.3.4 1.2.9.9"},
		// What is not understood admits nobody.
		{"mailq: .example.com", "", "127.0.0.1 ::1"},
		{"mailq: ALL EXCEPT 1.2.3.4", "ALL: ALL", ""},
		{"ALL EXCEPT sshd: ALL", "ALL: ALL", ""},
		{"mailq: joe@ALL", "ALL: ALL", ""},
		{"mailq: LOCAL", "ALL: ALL", ""},
		{"mailq: 1.2.3.0/255.0.255.0", "ALL: ALL", ""},
		{"mailq: 1.2.3.0/33", "ALL: ALL", ""},
		{"mailq: /etc/friends", "ALL: ALL", ""},
		{"mailq@1.1.1.1: ALL", "ALL: ALL", ""},
		{"mailq", "ALL: ALL", ""},
		{"mailq: 127.0.0.1: deny\nmailq: ALL", "", "::1 1.2.3.4 1.2.9.9 2001:db8::5"},
		{"mailq: .example.com: deny\nmailq: ALL", "", ""},
		{"mailq: ALL: spawn /bin/true", "", ""},
		// And in hosts.deny it refuses.
		{"", "mailq: .example.com", ""},
		{"", "ALL EXCEPT sshd: ALL", ""},
		{"", "mailq: ALL EXCEPT 127.0.0.1", ""},
		{"", "mailq: 1.2.3.4: allow", "127.0.0.1 ::1"},
		{"", "mailq:", ""},
		{"", "mailq", ""},
		{"mailq: 127.0.0.1", "mailq: KNOWN", "127.0.0.1"},
	}
	dir := t.TempDir()
	allow, deny := filepath.Join(dir, "hosts.allow"), filepath.Join(dir, "hosts.deny")
	for _, tt := range tests {
		must(t, os.WriteFile(allow, []byte(tt.allow), 0o644))
		must(t, os.WriteFile(deny, []byte(tt.deny), 0o644))
		var admits []string
		for peer := range strings.FieldsSeq(peers) {
			ok, err := wrappersAdmit(allow, deny, netip.MustParseAddr(peer))
			must(t, err)
			if ok {
				admits = append(admits, peer)
			}
		}
		if got := strings.Join(admits, " "); got != tt.admits {
			t.Errorf("allow %q deny %q: admits %q, want %q", tt.allow, tt.deny, got, tt.admits)
		}
	}
	if ok, err := wrappersAdmit(dir, deny, loopback.Addr); ok || err == nil {
		t.Errorf("an unreadable file: %v, %v", ok, err)
	}
	if ok, err := wrappersAdmit(dir+"/none", dir+"/nothing", loopback.Addr); !ok || err != nil {
		t.Errorf("no files: %v, %v", ok, err)
	}
}

func TestDumpsAreForAdmittedPeers(t *testing.T) {
	s := New(&fakeQueue{}, Settings{Version: 1})
	k := connect(t, s, Peer{Addr: netip.MustParseAddr("192.0.2.1")})
	got, err := io.ReadAll(k.in)
	must(t, err)
	if string(got) != "500 TCP-WRAPPER refusing 'mailq' query from your whereabouts\r\n" {
		t.Errorf("%q", got)
	}
	for _, peer := range []Peer{loopback, {UID: 1000}, {Addr: netip.MustParseAddr("::ffff:127.0.0.1")}} {
		got, err := io.ReadAll(connect(t, s, peer).in)
		must(t, err)
		if !strings.HasPrefix(string(got), mailq.GreetingV1+"\nVertices:\nEnd:\nKids: 0") {
			t.Errorf("%v: %q", peer, got)
		}
	}
}
