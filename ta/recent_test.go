package ta

// Many job lines for one large control file.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"zsched/ctlfile"
)

const largePath = "B/I/15582"

// putLarge stores a message to n hosts, and returns the size of its control file.
func (o testSpool) putLarge(n int) int {
	o.t.Helper()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = rcpt("smtp", fmt.Sprintf("h%d.example", i), fmt.Sprintf("u%d", i))
	}
	o.put(largePath, lines...)
	return len(o.read("transport/" + largePath))
}

// TestManyHostsCostOneReading counts the bytes that a session allocates: it read and
// parsed the whole control file for each job line.
func TestManyHostsCostOneReading(t *testing.T) {
	for _, marking := range []Marking{AgentMarks, SchedulerMarks} {
		o := newTestSpool(t)
		const hosts, jobs = 4000, 500
		size := uint64(o.putLarge(hosts))
		done := 0
		s := &Server{Channel: "smtp", Dir: o.transport(), Marking: marking, Deliver: func(m *Message) {
			done += len(m.Recipients)
			m.ReportRest(func(*Recipient) Result { return Result{Status: OK} })
		}}
		sessions := []*session{newSession(s, newOutput(io.Discard), 0), newSession(s, newOutput(io.Discard), 1)}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range jobs {
			sessions[i%2].work(JobLine{Path: largePath, Host: fmt.Sprintf("h%d.example", i)})
		}
		runtime.ReadMemStats(&after)
		if done != jobs {
			t.Fatalf("%d of %d recipients are delivered", done, jobs)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 20*size+jobs*8<<10 {
			t.Errorf("%v: %d job lines for a control file of %d bytes allocate %d bytes", marking, jobs, size, got)
		}
	}
}

func TestJobLineSeesTagsThatChangedSinceTheFileWasRead(t *testing.T) {
	o := newTestSpool(t)
	o.putLarge(1000)
	control := filepath.Join(o.dir, "transport", largePath)
	var got []string
	s := &Server{Channel: "smtp", Dir: o.transport(), Deliver: func(m *Message) {
		for i := range m.Recipients {
			got = append(got, fmt.Sprintf("%s %d", m.Recipients[i].User, m.Recipients[i].Delays))
		}
		m.ReportRest(func(*Recipient) Result { return Result{Status: OK} })
	}}
	ss := newSession(s, newOutput(io.Discard), 0)
	work := func(host int) { ss.work(JobLine{Path: largePath, Host: fmt.Sprintf("h%d.example", host)}) }
	work(1)

	// The scheduler recalls one recipient, and counts a delay notice of another one.
	f, err := ctlfile.Parse([]byte(o.read("transport/" + largePath)))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd := int(file.Fd())
	if _, err := ctlfile.Swap(fd, f.Recipients[2].Offset, ctlfile.Open, ctlfile.Locked, os.Getppid()); err != nil {
		t.Fatal(err)
	}
	if err := ctlfile.SetDelays(fd, f.Recipients[3].Offset, 2); err != nil {
		t.Fatal(err)
	}
	work(2)
	work(3)
	work(1) // delivered already

	// Somebody edits the file in place.
	text := strings.Replace(o.read("transport/"+largePath), "h4.example u4", "h4.example e4", 1)
	if err := os.WriteFile(control, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
	work(4)

	// A requeue writes another file.
	o.write("transport/new", strings.Replace(text, "h5.example u5", "h5.example v5", 1))
	if err := os.Rename(filepath.Join(o.dir, "transport/new"), control); err != nil {
		t.Fatal(err)
	}
	work(5)
	expect(t, strings.Join(got, ", "), "u1 0, u3 2, e4 0, v5 0")
}
