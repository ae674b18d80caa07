package main

import (
	"fmt"
	"net"
	"net/netip"
	"net/smtp"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zsched/internal/testing/peertest"
	"zsched/ta/smtp/smtptest"
)

// BenchmarkLone sends messages one after the other, each over a new connection when the one before
// has arrived, through our server and through Postfix in turn. p50-ms and p99-ms are the times from the
// final dot of the client to that of the sink.
func BenchmarkLone(b *testing.B) {
	const messages = 200
	peers := peertest.Find(b)
	bin := buildPrograms(b)
	peertest.SpreadTempDirs(b)
	took := map[string][]float64{}
	servers := []server{{"zsched", startOurs}, {"postfix", startPostfix}}
	for b.Loop() {
		for range rounds {
			for _, s := range servers {
				took[s.name] = append(took[s.name], lone(b, s, &mailRun{peers: peers, bin: bin, mailShape: mailShape{through: true}}, messages)...)
			}
			slices.Reverse(servers)
		}
	}
	for name, times := range took {
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2], name+"-p50-ms")
		b.ReportMetric(times[len(times)*99/100], name+"-p99-ms")
	}
	b.ReportMetric(0, "ns/op")
}

// lone returns how long each message has taken, in milliseconds.
func lone(b *testing.B, s server, r *mailRun, messages int) (took []float64) {
	b.Helper()
	sink, err := smtptest.Start(smtptest.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close()
	in, stop := s.start(b, r, int(netip.MustParseAddrPort(sink.Addr).Port()))
	defer stop()
	peertest.Until(b, s.name+" listens", peertest.Answers(in))
	for i := range messages {
		c, err := smtp.Dial(net.JoinHostPort("127.0.0.1", fmt.Sprint(in)))
		if err != nil {
			b.Fatal(err)
		}
		began, err := sendTo(c, "bob@a.example")
		if err != nil {
			b.Fatal(err)
		}
		sink.AwaitMessages(i + 1)
		took = append(took, time.Since(began).Seconds()*1000)
		_ = c.Close()
	}
	return took
}

// BenchmarkWaiting sends mail as BenchmarkMail does, to our server with an empty queue and to one where
// a million recipients wait, each with a host of its own, in turn. ratio is the one with them divided by
// the empty one.
func BenchmarkWaiting(b *testing.B) {
	peers := peertest.Find(b)
	bin := buildPrograms(b)
	peertest.SpreadTempDirs(b)
	rates := map[string][]float64{}
	servers := []server{{"empty", startOurs}, {"waiting", startWithMillion}}
	for b.Loop() {
		for range rounds {
			for _, s := range servers {
				r := mailRun{peers: peers, bin: bin, mailShape: mailShape{through: true, messages: 4000, size: 1900}}
				rates[s.name] = append(rates[s.name], float64(r.messages)/r.send(b, s).Seconds())
			}
			slices.Reverse(servers)
		}
	}
	for name, all := range rates {
		b.ReportMetric(peertest.Median(all), name+"-messages/s")
	}
	b.ReportMetric(peertest.Median(rates["waiting"])/peertest.Median(rates["empty"]), "ratio")
	b.ReportMetric(0, "ns/op")
}

// startWithMillion is startOurs with a million recipients who wait.
func startWithMillion(b *testing.B, r *mailRun, to int) (in int, stop func()) {
	b.Helper()
	p := ours(b, r, to)
	for i := range 1000 {
		var text strings.Builder
		text.WriteString("from <alice@sender.example>\n")
		for n := range 1000 {
			fmt.Fprintf(&text, "to <bob@h%d-%d.waiting.example>\n", i, n)
		}
		text.WriteString("env-end\nSubject: waits\n\ntext\n")
		peertest.Put(b, filepath.Join(p.dir, "router", fmt.Sprint(i+1)), text.String())
	}
	peertest.Run(b, exec.Command(filepath.Join(r.bin, "router"), "-i", "-Z", filepath.Join(p.dir, "zmailer.conf"), "--once"))
	return p.startPrograms(b, r.bin, true, r.traced)
}
