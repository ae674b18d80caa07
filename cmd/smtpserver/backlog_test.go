package main

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"zsched/mailq"
	"zsched/mailq/client"
	mailqserver "zsched/mailq/server"
	"zsched/smtpserver"
)

// totalsOnly is a queue that can be asked for totals only.
type totalsOnly struct{ mailqserver.Queue }

func (totalsOnly) Totals(context.Context) (mailq.Totals, error) {
	return mailq.Totals{Messages: 40, States: map[string]int{"due": 3, "fed": 2, "reading": 1, "waiting": 50}}, nil
}

func TestSchedulerTellsWhatIsDue(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth")
	if err := os.WriteFile(auth, []byte("nobody:nobody:SNMP:  [127.0.0.0]/8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[int]smtpserver.Backlog{1: {}, 2: {Messages: 40, Ready: 6}} {
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "mailq"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		s := mailqserver.New(totalsOnly{}, mailqserver.Settings{Version: version, AuthFile: auth, UID: os.Geteuid()})
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				// A TCP client of this machine, which has to log in.
				s.Serve(t.Context(), conn, mailqserver.Peer{Addr: netip.MustParseAddr("127.0.0.1")})
			}
		}()
		got, err := backlog(client.Address{Path: l.Addr().String()})()
		if got != want || (err == nil) != (version == 2) {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
}
