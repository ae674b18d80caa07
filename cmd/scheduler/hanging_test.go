package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zsched/ta/smtp/smtptest"
)

// stages are the points at which servers say nothing more, as rules of smtptest.
var stages = []string{"connect", "EHLO", "MAIL", "RCPT", "DATA", "dot"}

// hangingSite is a postoffice whose sessions hang in each stage, with a server for each.
type hangingSite struct {
	testing.TB
	*bench
	po    string
	each  int // sessions that hang in each stage
	peers []*smtptest.Peer
	sched *running
}

// hang starts a scheduler and waits until its sessions hang.
func hang(t testing.TB, each int) *hangingSite {
	s := &hangingSite{TB: t, bench: newBench(t), each: each}
	s.po = s.postoffice(t)
	clauses := ""
	for i, stage := range stages {
		p, err := smtptest.Start(smtptest.Options{Offers: []string{"PIPELINING", "SIZE"}, Rules: []smtptest.Rule{{On: stage, Do: "hold"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		s.peers = append(s.peers, p)
		_, port, _ := strings.Cut(p.Addr, ":")
		clauses += fmt.Sprintf("smtp/h%d.example\n\tinterval=1s retries=1 maxthr=%d maxring=%[2]d sessions=20\n"+
			"\tcommand=\"smtp -c $channel -F [127.0.0.1] -p %[3]s -h here.example --sessions ${sessions}\"\n", i, each, port)
	}
	s.write(t, s.po, clauses)
	fill(t, s.po, each*len(stages), len(stages))
	s.sched = s.start(t, s.po)
	for i, stage := range stages {
		s.await(stage, func() bool { return s.reached(i) >= each })
	}
	return s
}

// reached is how many sessions have come to the stage of a server.
func (s *hangingSite) reached(i int) int {
	p, stage := s.peers[i], stages[i]
	switch stage {
	case "connect":
		stage = "(connect)"
	case "dot":
		return len(p.Messages())
	}
	return len(slices.DeleteFunc(p.Commands(), func(c string) bool { return !strings.HasPrefix(c, stage) }))
}

func (s *hangingSite) await(what string, done func() bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(s.sched.log)
			s.Fatalf("waited in vain for: %s\n%s", what, log)
		}
	}
}

// restart ends the scheduler with a signal, starts the next one, and returns how long it
// took until that one has sessions that hang, too.
func (s *hangingSite) restart(sig syscall.Signal) (ended, fed time.Duration) {
	before := s.reached(0)
	began := time.Now()
	_ = s.sched.cmd.Process.Signal(sig)
	_ = s.sched.cmd.Wait()
	ended = time.Since(began)
	s.sched = s.start(s, s.po)
	s.await("sessions of the next scheduler", func() bool { return s.reached(0) > before })
	return ended, time.Since(began)
}

// finish lets the servers go on, and returns how often each message was accepted.
func (s *hangingSite) finish() map[string]int {
	for _, p := range s.peers {
		p.Release()
	}
	waitEmpty(s, filepath.Join(s.po, "transport"), filepath.Join(s.po, "queue"))
	s.sched.stop(s)
	copies := map[string]int{}
	for i, p := range s.peers {
		for _, m := range p.Messages() {
			for _, r := range m.Recipients {
				copies[fmt.Sprint(i, " ", r)]++
			}
		}
	}
	return copies
}

// TestRestartWhileSessionsHang: a restart takes no longer than two seconds in whatever
// stage sessions hang, however the scheduler ends, and nothing is delivered twice.
func TestRestartWhileSessionsHang(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := hang(t, 3)
			ended, fed := s.restart(sig)
			s.check(t, ended, fed)
		})
	}
}

// check finishes, and says what took too long or came twice.
func (s *hangingSite) check(t testing.TB, ended, fed time.Duration) {
	if ended > 2*time.Second || fed > 10*time.Second {
		t.Errorf("it ended after %v, and the next one had sessions after %v", ended, fed)
	}
	copies := s.finish()
	for i, stage := range stages {
		if n := copies[fmt.Sprintf("%d bob@h%d.example", i, i)]; n != s.each {
			t.Errorf("%s: %d copies of %d messages", stage, n, s.each)
		}
	}
}

// BenchmarkRestartHanging restarts a scheduler with 400 sessions that hang.
func BenchmarkRestartHanging(b *testing.B) {
	var ends, feeds []float64
	for b.Loop() {
		b.StopTimer()
		s := hang(b, 400/len(stages))
		b.StartTimer()
		ended, fed := s.restart(syscall.SIGTERM)
		b.StopTimer()
		ends, feeds = append(ends, ended.Seconds()), append(feeds, fed.Seconds())
		s.check(b, ended, fed)
		b.StartTimer()
	}
	b.ReportMetric(median(ends), "s-to-exit")
	b.ReportMetric(median(feeds), "s-to-first-session")
}
