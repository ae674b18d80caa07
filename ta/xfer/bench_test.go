package xfer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
)

// BenchmarkMove moves messages from one postoffice to another on the same disk, over a
// UNIX socket: the agent and the receiver. The schedulers have no part in it. moved/s is
// messages a second. On a disk it depends on how long a sync takes: all sessions together
// wait for about five of them.
func BenchmarkMove(b *testing.B) {
	for _, sessions := range []int{250, 1000} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) { benchmarkMove(b, sessions) })
	}
}

func benchmarkMove(b *testing.B, sessions int) {
	const messages = 10_000
	var took time.Duration
	for b.Loop() {
		p := newPair(b, b.TempDir(), b.TempDir())
		body := "Subject: x\n\n" + strings.Repeat("text\n", 400)
		for i := range messages {
			name := fmt.Sprint(1_000_000 + i)
			from := ctlfile.Origin{Node: "mx1", SpoolID: "S" + name + "XMVQKNOA", Offset: 58, Channel: "smtp", Host: "a.example"}
			c := ctlfile.Contents{Name: name, Body: 12, Blocks: []ctlfile.HeaderBlock{{
				Header: "Subject: x\n",
				Envelopes: []ctlfile.Envelope{{
					Sender: ctlfile.Address{Channel: "smtp", Host: "-", User: "a@example", Privilege: "0"},
					Recipients: []ctlfile.EnvelopeRecipient{{
						Address: ctlfile.Address{Channel: "xfer", Host: "mx2", User: "b@a.example", Privilege: "65534"}, Origin: from.String(),
					}},
				}},
			}}}
			text, err := c.Encode()
			check(b, err)
			check(b, os.WriteFile(filepath.Join(p.source, "transport", name), text, 0o660))
			check(b, os.WriteFile(filepath.Join(p.source, "queue", name), []byte(body), 0o440))
		}
		stop, err := p.serve()
		check(b, err)
		startedAt := time.Now()
		said := p.runSessions(sessions)
		took += time.Since(startedAt)
		stop()
		if n := strings.Count(said, "\tok3 moved to mx2"); n != messages {
			b.Fatalf("%d messages were moved", n)
		}
		if n := len(controlFiles(filepath.Join(p.target, "transport"), "")); n != messages {
			b.Fatalf("%d messages have arrived", n)
		}
	}
	b.ReportMetric(0, "ns/op") // mostly the filling
	b.ReportMetric(float64(messages)*float64(b.N)/took.Seconds(), "moved/s")
}
