package main

import (
	"net"
	"testing"
)

func TestServerOfAMount(t *testing.T) {
	const mounts = `proc /proc proc rw 0 0
/dev/sda1 / ext4 rw 0 0
/dev/sdb1 /var ext4 rw 0 0
hub.example.org:/export/spool /var/spool nfs4 rw,vers=4.2 0 0
/dev/sdc1 /var/spool/news ext4 rw 0 0
[2001:db8::7]:/export/other /other nfs rw 0 0
odd:/ /var/spoolish fuse.sshfs rw 0 0
`
	for dir, want := range map[string]string{
		"/var/spool/postoffice": "hub.example.org",
		"/var/spool":            "hub.example.org",
		"/var/spool/news":       "localhost",
		"/var/spoolish":         "localhost",
		"/var/lib":              "localhost",
		"/other/po":             "2001:db8::7",
		"/po":                   "localhost",
	} {
		if got := nfsServer(dir, mounts); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	if got := nfsServer("/po", ""); got != "localhost" {
		t.Errorf("without mounts: %s", got)
	}
}

// TestLocal: the addresses of this host are local, those for documentation are
// not.
func TestLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "192.0.2.1": false, "2001:db8::1": false,
	} {
		if got := isLocal(host); got != want {
			t.Errorf("%s: %v", host, got)
		}
	}
	ours, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range ours {
		if ip, _, err := net.ParseCIDR(a.String()); err != nil || !isLocal(ip.String()) {
			t.Errorf("%v is not ours: %v", a, err)
		}
	}
	if got := canonicalName("192.0.2.1"); got != "192.0.2.1" {
		t.Errorf("%s", got)
	}
}
