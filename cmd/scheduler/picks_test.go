package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"zsched/ctlfile"
	"zsched/queue"
)

// What is fed next, on the running program. Each job line that an agent is given
// comes to the test, which answers it when it wants: so the picks are counted one
// by one, and their order does not depend on time.

// pick is a job line in the hands of an agent that waits for an answer.
type pick struct {
	conn          net.Conn
	message, host string
}

// answer says how the delivery ends: ok or deferall.
func (p *pick) answer(t *testing.T, status string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.conn, status); err != nil {
		t.Fatal(err)
	}
	p.conn.Close()
}

// picker is a scheduler with agents that ask the test.
type picker struct {
	t        *testing.T
	office   *bench
	po       string
	sched    *running
	listener net.Listener
	picks    chan *pick
	flight   []*pick // not answered yet, the oldest first
}

// newPicker makes a postoffice with one clause. The scheduler is not started yet.
func newPicker(t *testing.T, sessions int, clause string) *picker {
	p := &picker{t: t, office: linkBench(t, testBinary(t), map[string]string{"asker": program(t, "player")}), picks: make(chan *pick, 1000)}
	p.po = p.office.postoffice(t)
	p.configure(fmt.Sprintf("PARAMevent-log=%s/events", p.po), sessions, clause)
	var err error
	if p.listener, err = net.Listen("unix", p.socket()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.listener.Close() })
	go p.accept()
	return p
}

// socket is where the agents ask.
func (p *picker) socket() string { return filepath.Join(p.po, "asker") }

// configure writes the configuration: parameters and the clause.
func (p *picker) configure(params string, sessions int, clause string) {
	p.office.write(p.t, p.po, fmt.Sprintf("%s\nsmtp/* overfeed=0 sessions=%d %s\n\tcommand=\"asker %s ${sessions}\"\n",
		params, sessions, clause, p.socket()))
}

// start starts the scheduler.
func (p *picker) start() {
	p.sched = p.office.start(p.t, p.po)
	p.t.Cleanup(p.end)
}

func (p *picker) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			line, err := bufio.NewReader(conn).ReadString('\n')
			message, host, ok := strings.Cut(strings.TrimSpace(line), " ")
			if err != nil || !ok {
				conn.Close()
				return
			}
			p.picks <- &pick{conn, message, host}
		}()
	}
}

// end stops the scheduler. All its agents hear that the test has ended.
func (p *picker) end() {
	p.listener.Close()
	for {
		select {
		case k := <-p.picks:
			p.flight = append(p.flight, k)
			continue
		default:
		}
		break
	}
	for _, open := range p.flight {
		open.conn.Close()
	}
	p.sched.stop(p.t)
}

// next waits for the next pick.
func (p *picker) next() *pick {
	p.t.Helper()
	select {
	case k := <-p.picks:
		p.flight = append(p.flight, k)
		return k
	case <-time.After(patience):
		log, _ := os.ReadFile(filepath.Join(p.po, "log"))
		p.t.Fatalf("no further job line is given; %d are open\n%s", len(p.flight), log)
		return nil
	}
}

// deliver ends the oldest open job line well.
func (p *picker) deliver() {
	p.t.Helper()
	p.flight[0].answer(p.t, "ok")
	p.flight = p.flight[1:]
}

// submit writes a message from the sender to somebody at each host.
func (p *picker) submit(sender string, hosts ...string) {
	p.t.Helper()
	group := ctlfile.HeaderBlock{
		Envelopes: []ctlfile.Envelope{{Sender: ctlfile.Address{Channel: "smtp", Host: "-", User: sender, Privilege: "7"}}},
		Header:    "From: " + sender + "\nSubject: a test\n",
	}
	for _, host := range hosts {
		group.Envelopes[0].Recipients = append(group.Envelopes[0].Recipients,
			ctlfile.EnvelopeRecipient{Address: ctlfile.Address{Channel: "smtp", Host: host, User: "u@" + host, Privilege: "7"}})
	}
	draft := &ctlfile.Contents{MessageID: "<" + hosts[0] + "@here>", Blocks: []ctlfile.HeaderBlock{group}}
	if _, err := queue.Submit(p.po, 0, draft, strings.NewReader("A test.\n")); err != nil {
		p.t.Fatal(err)
	}
}

// report returns the report on the queue, as mailq -Q has it; empty: it cannot be
// had yet.
func (p *picker) report() string {
	conn, err := net.Dial("unix", filepath.Join(p.po, "mailq"))
	if err != nil {
		return ""
	}
	defer conn.Close()
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// loaded waits until the scheduler has so many messages in its queue.
func (p *picker) loaded(messages int) {
	p.t.Helper()
	wanted := regexp.MustCompile(fmt.Sprintf(`(?m)^Kids:.* Msgs: +%d `, messages))
	for deadline := time.Now().Add(patience); !wanted.MatchString(p.report()); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("the queue never has %d messages", messages)
		}
	}
}

// hostNames returns names of n hosts.
func hostNames(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d.example", prefix, i)
	}
	return names
}

// bothKinds runs a test with an agent for each session, and with all sessions in
// one agent.
func bothKinds(t *testing.T, sessions int, do func(t *testing.T, perAgent int)) {
	t.Run("agents", func(t *testing.T) { t.Parallel(); do(t, 1) })
	t.Run("sessions", func(t *testing.T) { t.Parallel(); do(t, sessions) })
}

// TestSmallMailBehindMuch: messages for one host each, which arrive behind one
// message for 1500 hosts or behind 1500 messages, are all fed within a bounded
// number of picks.
func TestSmallMailBehindMuch(t *testing.T) {
	t.Parallel()
	const sessions, most = 20, 1500
	for _, test := range []struct {
		name     string
		messages int // that the mail before is
		small    int
		sender   string
		within   int
	}{
		{"five of the same sender behind one message", 1, 5, "ann@big.example", 150},
		{"twenty of another sender behind one message", 1, 20, "carl@small.example", 200},
		{"twenty of another sender behind many messages", most, 20, "carl@small.example", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			bothKinds(t, sessions, func(t *testing.T, perAgent int) {
				p := newPicker(t, perAgent, fmt.Sprintf("maxring=%d", sessions))
				if test.messages == 1 {
					p.submit("ann@big.example", hostNames("big", most)...)
				} else {
					fill(t, p.po, most, most)
				}
				p.start()
				for range sessions {
					p.next()
				}
				p.loaded(test.messages)
				for _, host := range hostNames("small", test.small) {
					p.submit(test.sender, host)
				}
				p.loaded(test.messages + test.small)
				picks, found := 0, 0
				for ; found < test.small && picks < most; picks++ {
					p.deliver()
					if strings.HasPrefix(p.next().host, "small") {
						found++
					}
				}
				t.Logf("%s: all are fed within %d picks, must be %d", test.name, picks, test.within)
				if found < test.small || picks > test.within {
					t.Errorf("%d of %d are fed within %d picks, want all within %d", found, test.small, picks, test.within)
				}
			})
		})
	}
}

// TestOneMessageLeavesSessionsFree: one message alone takes ten elevenths of the
// sessions of its ring; other mail finds the rest free.
func TestOneMessageLeavesSessionsFree(t *testing.T) {
	t.Parallel()
	const sessions, want = 220, 200
	p := newPicker(t, sessions, fmt.Sprintf("maxring=%d", sessions))
	p.submit("ann@big.example", hostNames("big", 300)...)
	p.start()
	for range want {
		p.next()
	}
	p.submit("ann@big.example", "small.example")
	others := 0
	for p.next().host != "small.example" {
		others++
	}
	// The scheduler has given out no job line that the test has not seen.
	if open := strings.Count(p.report(), " OF={1} "); open != want+1 {
		others = open - want - 1
	}
	t.Logf("one message has %d of %d sessions, must be %d", want+others, sessions, want)
	if others != 0 {
		t.Errorf("one message has %d of %d sessions, want %d", want+others, sessions, want)
	}
}

// suspensions waits until the event log has that many suspensions, and returns
// how many it has.
func (p *picker) suspensions(expected int) (n int) {
	for deadline := time.Now().Add(patience); n < expected && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		events, err := os.ReadFile(filepath.Join(p.po, "events"))
		if err != nil {
			p.t.Fatal(err)
		}
		n = bytes.Count(events, []byte(`"event":"suspended"`))
	}
	return n
}

// TestDeadHostBesideLiveOne: a host that does not answer costs the sessions of its
// window once, and then one session for each suspension. The mail of the other host
// is delivered meanwhile.
func TestDeadHostBesideLiveOne(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clause string
		window int // sessions that each host has first
		once   int // attempts before the first suspension
	}{
		"constant window": {"maxthr=10", 10, 10},
		// The fifth failure makes the host dead. Up to three sessions have been
		// given to it since the first, because a window of four had fewer than that.
		"moving window": {"initialconcurrency=5 maxthr=10", 5, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothKinds(t, 20, func(t *testing.T, perAgent int) {
				const messages, probes = 30, 2
				p := newPicker(t, perAgent, "maxring=20 interval=1s retries=1 jitter=0 "+test.clause)
				for range messages {
					p.submit("ann@a.example", "dead.example")
					p.submit("ann@a.example", "live.example")
				}
				p.start()
				dead, live := 0, 0
				for range 2 * test.window {
					p.next()
				}
				p.loaded(2 * messages)
				answer := func() {
					k := p.flight[0]
					p.flight = p.flight[1:]
					if k.host == "dead.example" {
						dead++
						k.answer(t, "deferall")
						return
					}
					live++
					k.answer(t, "ok")
				}
				for live < messages || dead < test.once+probes {
					if len(p.flight) == 0 {
						p.next()
					}
					answer()
				}
				// The next probe is the only job line that is open.
				p.next()
				if text := p.report(); !regexp.MustCompile(`(?m)^    smtp/dead.example/0.* P=\{\d+\} `).MatchString(text) {
					t.Errorf("a probe is more than one job line: %s", text)
				}
				suspensions := p.suspensions(1 + probes)
				t.Logf("dead host, %s: %d attempts with %d suspensions, at most %d and one each; %d of %d messages to the live host",
					name, dead, suspensions, test.once, live, messages)
				// How many sessions are refilled depends on which reports arrive together.
				if probed := suspensions - 1; dead < test.window+probed || dead > test.once+probed || live != messages {
					t.Errorf("a dead host with a window of %d costs %d attempts with %d suspensions, want at most %d and then one each; %d of %d messages are delivered to the other host",
						test.window, dead, suspensions, test.once, live, messages)
				}
			})
		})
	}
}
