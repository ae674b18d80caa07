package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// turnMessages is how much mail waits in TestEachDestinationHasItsTurn.
var turnMessages = flag.Int("turns", 2000, "messages of TestEachDestinationHasItsTurn")

var turnSeed = flag.Uint64("turns-seed", rand.Uint64(), "seed of the mail and the reloads of that test")

// heldRecord holds one thread, as a scheduler of before has written it.
const heldRecord = "state held\nsince 2026-11-22T08:00:00Z\nby root uid 0\nbecause the test asks\nthread smtp\theld.example\nend\n"

// TestEachDestinationHasItsTurn: a dead and a slow destination have nine tenths of the
// mail, and share a ring with a hundred others. The slow one ends nothing, so it has its
// window of sessions all the time. All mail of the others is delivered meanwhile. What
// arrives late is fed as soon as each host had a turn. 2000 held messages and a few reloads
// change nothing. There is an event log, which keeps the addresses in memory.
func TestEachDestinationHasItsTurn(t *testing.T) {
	t.Parallel()
	const sessions, window, others, held, within, reloads = 20, 5, 100, 2000, 150, 10
	t.Logf("-turns-seed %d", *turnSeed)
	random := rand.New(rand.NewPCG(*turnSeed, *turnSeed))
	p := newPicker(t, sessions, "")
	if !raced { // the limit of 120 MB is for the program itself
		p.office = linkBench(t, program(t, "scheduler"), map[string]string{"asker": program(t, "player")})
	}
	// configure sets how soon the dead host is tried again: after the test.
	configure := func() {
		p.configure("PARAMevent-log="+p.po+"/events", sessions, fmt.Sprintf("maxring=20 maxthr=%d retries=1 interval=%dh", window, 1+random.IntN(9)))
	}
	configure()
	hold := filepath.Join(p.po, "hold", "orders")
	if err := os.MkdirAll(hold, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(hold, "1"), heldRecord)
	deliverable := 0
	for n := 1; n <= *turnMessages+held; n++ {
		host := "held.example"
		if n <= *turnMessages {
			switch part := random.IntN(20); {
			case part < 9:
				host = "dead.example"
			case part < 18:
				host = "slow.example"
			default:
				host = "other" + strconv.Itoa(random.IntN(others)) + ".example"
				deliverable++
			}
		}
		control, message := letter(n, 1)
		writeFile(t, filepath.Join(p.po, "queue", strconv.Itoa(n)), message)
		writeFile(t, filepath.Join(p.po, "transport", strconv.Itoa(n)), strings.ReplaceAll(control, "h0.example", host))
	}
	p.start()

	picks, slow, dead, delivered := 0, 0, 0, 0
	// take answers one job line, and returns its host.
	take := func() string {
		k := p.next()
		picks++
		p.flight = p.flight[:len(p.flight)-1]
		switch k.host {
		case "held.example":
			t.Fatal("held mail is fed")
		case "slow.example":
			p.flight = append(p.flight, k) // it never ends
			slow++
		case "dead.example":
			dead++
			k.answer(t, "deferall")
		default:
			delivered++
			k.answer(t, "ok")
		}
		return k.host
	}
	for delivered < deliverable/2 {
		if take(); delivered == 1 || random.IntN(deliverable) < reloads {
			configure()
			if err := p.sched.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
		}
	}
	late := map[string]bool{}
	for _, host := range hostNames("late", 20) {
		late[host] = true
		p.submit("carl@small.example", host)
	}
	p.loaded(*turnMessages + held + len(late) - delivered)
	loaded, before := time.Now(), picks
	for len(late) > 0 && delivered < deliverable+20 {
		delete(late, take())
	}
	t.Logf("what arrives late is fed within %d picks, must be %d, in %v", picks-before, within, time.Since(loaded).Round(time.Millisecond))
	if len(late) > 0 || picks-before > within {
		t.Errorf("%d late hosts are not fed in %d picks, want all within %d", len(late), picks-before, within)
	}
	for delivered < deliverable+20 {
		take()
	}
	if slow != window || dead > 2*window {
		t.Errorf("the slow host has %d sessions and the dead one %d attempts, want %d and at most %d", slow, dead, window, 2*window)
	}
	log, err := os.ReadFile(p.sched.log)
	if err != nil || !bytes.Contains(log, []byte("configuration read again")) {
		t.Errorf("the log tells of no reload: %v", err)
	}
	size := residentMB(t, p.sched.cmd.Process.Pid, "VmHWM:")
	t.Logf("%d messages: %d of other hosts are delivered in %d picks; %.0f MB resident, must be %d",
		*turnMessages+held, delivered, picks, size, mostResident)
	if size > mostResident && !raced {
		t.Errorf("%.0f MB resident, must be %d", size, mostResident)
	}
}
