package ta

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestExitCodes(t *testing.T) {
	permanent := map[int]string{65: "5.6.0", 67: "5.1.1", 68: "5.1.2", 69: "5.3.0", 77: "5.7.0"}
	for code := range 256 {
		r := exitResult(code)
		want, status := permanent[code], Error
		switch {
		case code == 0:
			want, status = "2.0.0", OK
		case want == "":
			want, status = "4.", Deferred
		}
		if r.Status != status || !strings.HasPrefix(r.Fields.Code, want) {
			t.Errorf("exit code %d is %v %s", code, r.Status, r.Fields.Code)
		}
	}
}

// If it were deferred, the message would be delivered twice.
func TestProgramThatEndsWellAtItsLimitHasDelivered(t *testing.T) {
	p := &Program{Path: "/bin/sh", Args: []string{"sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"},
		Input: os.Stdin, Limit: 300 * time.Millisecond, Grace: time.Minute}
	if r := p.Run(); r.Status != OK {
		t.Errorf("%+v", r)
	}
	p.Args[2] = "sleep 600 & wait"
	if r := p.Run(); r.Status != Deferred || r.Text != "killed after 300ms" {
		t.Errorf("%+v", r)
	}
}

// BenchmarkProgram measures the rate of one session with a program that does nothing.
func BenchmarkProgram(b *testing.B) {
	p := &Program{Path: "/bin/true", Args: []string{"true"}, Limit: time.Minute}
	for b.Loop() {
		if r := p.Run(); r.Status != OK {
			b.Fatal(r)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}
