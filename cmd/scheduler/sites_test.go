package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
	"zsched/ta/smtp/smtptest"
)

// mostConnections is how many connections a server had at once. The client waits for the reply to
// QUIT, so what it does next comes later in the list.
func mostConnections(commands []string) (most int) {
	open := 0
	for _, c := range commands {
		switch c {
		case "(connect)":
			open++
		case "QUIT":
			open--
		}
		most = max(most, open)
	}
	return most
}

// TestNewDomainsOfOneServer: none of them was seen before, and all have the same MX host. It gets
// no more connections than it may have at once, however many nodes there are.
func TestNewDomainsOfOneServer(t *testing.T) {
	const limit, domains, messages = 8, 40, 120
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			server, err := smtptest.Start(smtptest.Options{Rules: []smtptest.Rule{{On: "dot", Do: "hold"}}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			setting := "sitemax"
			store := fmt.Sprintf("127.0.0.1:%d", peertest.FreePort(t))
			if nodes > 1 {
				setting = "clustersitemax"
				t.Cleanup(peertest.Background(t, exec.Command(program(t, "ministore"), store)))
			}
			_, port, _ := strings.Cut(server.Addr, ":")
			b := newBench(t)
			var offices []string
			for i := range nodes {
				po := b.postoffice(t)
				offices = append(offices, filepath.Join(po, "transport"))
				b.write(t, po, fmt.Sprintf("PARAMnode=mx%d\nPARAMcluster=\"redis://%s/0?ttl=3s\"\n"+
					"smtp/* interval=1s retries=1 maxthr=10 sessions=5 overfeed=0 %s=%d\n"+
					"\tcommand=\"smtp -1 -c $channel -F [127.0.0.1] -p %s -h here.example --sessions ${sessions}\"\n", i, store, setting, limit, port))
				fill(t, po, messages/nodes, domains)
				sched := b.start(t, po)
				t.Cleanup(func() { sched.stop(t) })
			}
			begun := time.Now()
			peertest.Until(t, "sessions", func() bool {
				open, _, _ := server.Connections()
				return open == limit
			})
			server.Release()
			waitEmpty(t, offices...)
			if n := len(server.Messages()); n != messages/nodes*nodes {
				t.Errorf("%d messages", n)
			}
			most := mostConnections(server.Commands())
			t.Logf("%d nodes: at most %d connections at once, in %v", nodes, most, time.Since(begun))
			if most > limit {
				t.Errorf("%d connections at once", most)
			}
		})
	}
}
