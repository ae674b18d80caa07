package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
)

// benchPostfix fills Postfix's queue while its transport is deferred. A run lets the
// queue go.
func benchPostfix(b *testing.B, peers peertest.Peers, port int) func() measured {
	b.Helper()
	return func() measured {
		p := peertest.NewPostfix(b, peers, port, "defer_transports = smtp")
		_, stop := p.Start(b)
		peertest.Until(b, "Postfix listens", peertest.Answers(p.In))
		peertest.Run(b, peers.Source(p.In, messagesPerRun, "alice@sender.example", "bob@a.example"))
		active := filepath.Join(p.Dir, "spool/active")
		incoming, deferred := filepath.Join(p.Dir, "spool/incoming"), filepath.Join(p.Dir, "spool/deferred")
		peertest.Until(b, "all is deferred", emptied(b, active, incoming))
		stop()
		p.Configure(b, port)
		start := time.Now()
		pid, stop := p.Start(b)
		// Have it try the deferred messages now.
		peertest.Until(b, "Postfix runs", func() bool {
			return peers.Command("sbin/postkick", "-c", filepath.Join(p.Dir, "conf"), "public", "qmgr", "DFAI").Run() == nil
		})
		peertest.Until(b, "Postfix has delivered", emptied(b, active, incoming, deferred))
		m := measured{elapsed: changedAt(b, active).Sub(start), cpu: map[string]time.Duration{}}
		for _, d := range cpuTimes(b, pid) {
			m.cpu["postfix"] += d
		}
		stop()
		log, err := os.ReadFile(p.Log())
		if n := strings.Count(string(log), "status=sent"); n != messagesPerRun {
			b.Fatalf("Postfix has delivered %d of %d, %v; the end of its log: %s", n, messagesPerRun, err, log[max(len(log)-1000, 0):])
		}
		return m
	}
}
