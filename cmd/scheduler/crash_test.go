package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"zsched/ctlfile"
)

// The whole of what is promised takes longer than a test should: make crash
// runs 40 000 messages and fifty kills.
var (
	crashMessages = flag.Int("messages", 400, "messages of the runs with the old agent")
	crashKills    = flag.Int("kills", 3, "how often TestKilled kills the daemon")
)

// oldAgentOffice makes a postoffice whose agent is ta/examples/oldagent: it
// reads with fgets, flushes after each line, leaves at an empty line, and
// marks its recipients only after it has reported them. It writes every
// delivery down.
func oldAgentOffice(t *testing.T) (f *bench, po, log string) {
	f = newBench(t)
	po = f.postoffice(t)
	log = filepath.Join(po, "deliveries")
	f.write(t, po, "smtp/* maxring=3 maxthr=2 overfeed=10\n\tcommand=\"oldagent -c $channel -l "+log+"\"\n")
	return f, po, log
}

// TestOldAgent: an agent of the old kind gets every recipient once.
func TestOldAgent(t *testing.T) {
	t.Parallel()
	f, po, log := oldAgentOffice(t)
	fill(t, po, *crashMessages, 100)
	sched := f.start(t, po)
	waitEmpty(t, filepath.Join(po, "transport"), filepath.Join(po, "queue"))
	sched.stop(t)
	for recipient, times := range deliveries(t, log) {
		if times != 1 {
			t.Errorf("%s was delivered %d times", recipient, times)
		}
	}
	if got := len(deliveries(t, log)); got != *crashMessages {
		t.Errorf("%d recipients of %d were delivered", got, *crashMessages)
	}
}

// TestKilled kills the daemon at random moments, every second time with its
// agents, and starts another. Nothing is lost, and nothing is delivered twice
// but what a killed agent had locked.
func TestKilled(t *testing.T) {
	t.Parallel()
	f, po, log := oldAgentOffice(t)
	fill(t, po, *crashMessages, 100)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	open := map[string]bool{} // recipients that an agent had locked when it was killed
	for n := range *crashKills {
		sched := f.start(t, po)
		// A run gets so far that the whole takes all of the kills.
		until := (n+1)*(*crashMessages)/(*crashKills+1) - chance.IntN(*crashMessages/(*crashKills+1))
		for deadline := time.Now().Add(5 * time.Second); size(log) < until && time.Now().Before(deadline); {
			time.Sleep(time.Duration(chance.IntN(2000)) * time.Microsecond)
		}
		if n%2 == 0 {
			syscall.Kill(sched.cmd.Process.Pid, syscall.SIGKILL)
			sched.cmd.Wait()
			continue
		}
		syscall.Kill(-sched.cmd.Process.Pid, syscall.SIGKILL)
		sched.cmd.Wait()
		noteLocked(t, po, open)
	}
	t.Logf("killed %d times, %d of %d delivered by then", *crashKills, len(deliveries(t, log)), *crashMessages)
	sched := f.start(t, po)
	waitEmpty(t, filepath.Join(po, "transport"))
	sched.stop(t)
	checkOrphans(t, po)

	got := deliveries(t, log)
	doubled := 0
	for recipient, times := range got {
		if times > 1 {
			doubled++
			if !open[recipient] {
				t.Errorf("%s was delivered %d times, and no killed agent had it", recipient, times)
			}
		}
	}
	if len(got) != *crashMessages {
		t.Errorf("%d recipients of %d were delivered", len(got), *crashMessages)
	}
	t.Logf("%d doubled, all of them open in an agent that was killed", doubled)
}

// checkOrphans: a kill between the two unlinks of a message leaves its second
// file, at most one for each of the spool's workers.
func checkOrphans(t *testing.T, po string) {
	orphans, err := os.ReadDir(filepath.Join(po, "queue"))
	if err != nil {
		t.Fatal(err)
	}
	if most := 4 * *crashKills; len(orphans) > most {
		t.Errorf("%d orphans in queue/, more than the %d that so many kills can leave", len(orphans), most)
	}
	t.Logf("%d message files were left without a control file", len(orphans))
}

// size estimates how many deliveries the log holds, without reading it.
func size(log string) int {
	info, err := os.Stat(log)
	if err != nil {
		return 0
	}
	return int(info.Size() / int64(len("12345 187\n")))
}

// deliveries counts how often each recipient was delivered.
func deliveries(t *testing.T, log string) map[string]int {
	data, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	times := map[string]int{}
	for line := range strings.Lines(string(data)) {
		times[strings.TrimSpace(line)]++
	}
	return times
}

// noteLocked notes the recipients that are locked in their control files.
func noteLocked(t *testing.T, po string, open map[string]bool) {
	entries, err := os.ReadDir(filepath.Join(po, "transport"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(po, "transport", e.Name()))
		if err != nil {
			continue // finished meanwhile
		}
		f, err := ctlfile.Parse(data)
		if err != nil {
			continue // not a control file
		}
		for _, r := range f.Recipients {
			if r.Tag == ctlfile.Locked {
				open[fmt.Sprintf("%s %d", e.Name(), r.Offset)] = true
			}
		}
	}
}
